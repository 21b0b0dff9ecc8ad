import subprocess, json, os, shutil
BIN=os.environ.get("BIN","ATTACK_DIR/ss"); ROOT="ATTACK_DIR/r/sec"; shutil.rmtree(ROOT,ignore_errors=True)
def run(*a,inp=None,js=True,t=60):
    p=subprocess.run(["nice",BIN,"--store",ROOT]+(["--json"] if js else [])+list(a),input=inp,capture_output=True,timeout=t); return p.returncode,p.stdout.decode("utf8","replace"),p.stderr.decode("utf8","replace")
N=[0]
def put(content,role="user",**top):
    N[0]+=1; sid=f"s{N[0]}"; key=f"agent:main:t{N[0]}"
    d={"type":"message","id":f"m{N[0]}","timestamp":"2026-01-01T00:00:00Z","message":{"role":role,"content":content}}; d.update(top)
    r=run("append","--session-key",key,"--session-id",sid,inp=(json.dumps(d)+"\n").encode()); 
    if r[0]: print("append",r,str(content)[:80])
    return key
B="QzX7mKp2VtR9wYbN4hJc"  # canary body
def check(name,key,parts,words=()):
    outs={}
    for it in ((),("--include-tools",)):
        outs["hist"+str(it)]=run("history",key,"--as",key,*it)[1]
    outs["histtext"]=run("history",key,"--include-tools",js=False)[1]
    outs["search"]=run("search","marker","--session-key",key,"--as",key)[1]
    for p in parts:
        for k,o in outs.items():
            if p in o: print("LEAK",name,k,p,o[max(0,o.find(p)-60):o.find(p)+60].replace("\n","\\n"))
        for q in (p,p[:5],p[4:9],p[-6:]):
            for pre in ((),("--prefix",)):
                r=run("search",q,"--session-key",key,"--as",key,*pre)
                if json.loads(r[1]).get("results"): print("FOUND-BY",name,repr(q),pre,json.loads(r[1])["results"][0]["snippet"][:100])
inner=B[7:15]
T=lambda s:[{"type":"text","text":s}]
C={
"env":f"marker ACME_API_KEY={B} x","json":json.dumps({"marker":1,"accessToken":B}),"pay":'marker {"cvc":"%s"}'%B,"insp":f"marker client_secret: '{B}'","cli":f"marker deploy --password {B} --force","auth":f"marker Authorization: Basic {B}","digest":f'marker Authorization: Digest username="u", response="{B}"',"bearer":f"marker Bearer {B}","xapi":f"marker x-api-key: {B}","cookie":f"marker Cookie: sid={B}; other={B}z","setcookie":f"marker Set-Cookie: sid={B}; Path=/","urlui":f"marker https://u:{B}@host/","db":f"marker postgres://svc:{B}@db/x","query":f"marker https://h/p?access_token={B}&x=1","queryobf":f"marker https://h/p?acce%73s%5Ftoken={B}&x=1","form":f"marker user=bo&password={B}","lower":f"marker password={B}","conf":f"marker jdbc.password = {B}","pem":f"marker -----BEGIN RSA PRIVATE KEY-----\nMIIE{B}\n{B}qq\n-----END RSA PRIVATE KEY-----","aws":"marker AKIAQZX7MKP2VTR9WYBN","awssec":f"marker aws_secret_access_key = {B}{B}","sk":f"marker sk-{B}","ghp":f"marker ghp_{B}","glpat":f"marker glpat-{B}","jwt":f"marker eyJhbGciOiJI.{B}.{B}","slack":f"marker https://hooks.slack.com/services/T0000000/B0000000/{B}","discord":f"marker https://discord.com/api/webhooks/123456789012345678/{B}{B}{B}","tg":f"marker 9876543:{B}abc","fernet":f"marker gAAAA{B}{B}","asp":"marker app password qzxm-kpvt-rwyb-nhjc","sg":f"marker SG.{B}ab.{B}{B}abc",
# variants
"bold":f"marker **ACME_TOKEN**={B}","zwsp":f"marker ACME_TOKEN\u200b={B}","fullwidth=":f"marker ACME_TOKEN＝{B}","nbsp":f"marker password\u00a0=\u00a0{B}","newline":f"marker password:\n  {B}","crlf":f"marker Authorization: Bearer\r\n {B}","export":f"marker export ACME_TOKEN='{B}'","yaml":f"marker password: {B}","esc":json.dumps(json.dumps({"marker":1,"token":B})),"camel":f'marker dbPassword={B}',"b64nodata":f"marker x;base64,ghp_{B}","b64data":f"marker data:text/plain;base64,ghp_{B}","b64lab":f"marker password=x;base64,{B}{B}","longfar":"marker "+"w "*20000+f"ACME_TOKEN={B}","unterm":f'marker token="{B}',"pemnoend":f"marker -----BEGIN PRIVATE KEY-----\nMIIE{B}\n{B}q","markdownlink":f"marker [x](https://h/?token={B})","ansi":f"marker \u001b[1mghp_\u001b[0m{B}","under":f"marker _ghp_{B}_","uni":f"marker éghp_{B}","cyr":f"marker жsk-{B}","bearerl":f"marker authorization: bearer {B}","curl":f"marker curl -u user:{B} https://h","nul":f"marker ghp_\x00{B}","pass":f"marker passphrase: {B}"}
for n,t in C.items():
    k=put(T(t)); check(n,k,["QZX7MKP2VTR9"[3:11]] if n=="aws" else (["kpvt-rwyb"] if n=="asp" else [inner]))
print("== structure")
pem1=f"-----BEGIN PRIVATE KEY-----\nMIIE{B}"; pem2=f"{B}xx\n-----END PRIVATE KEY-----"
S={
"split-text":[{"type":"text","text":"marker "+pem1},{"type":"text","text":pem2}],
"split-think":[{"type":"text","text":"marker"},{"type":"thinking","thinking":pem1},{"type":"thinking","thinking":pem2}],
"split-text-think":[{"type":"text","text":"marker "+pem1},{"type":"thinking","thinking":pem2}],
"split-tool-between":[{"type":"text","text":"marker "+pem1},{"type":"toolCall","name":"x","arguments":{"a":1}},{"type":"text","text":pem2}],
"split-label":[{"type":"text","text":"marker Authorization: Bearer"},{"type":"text","text":B}],
"toolargs":[{"type":"text","text":"marker"},{"type":"toolCall","name":"x","arguments":{"password":B,"nested":{"apiKey":B},"cmd":f"ACME_TOKEN={B} run","env":{"ACME_TOKEN":B},"list":["--token",B]}}],
"toolname":[{"type":"text","text":"marker"},{"type":"toolCall","name":f"ghp_{B}","arguments":{}}],
"kind":[{"type":"text","text":"marker"},{"type":f"ghp_{B}","text":"hello"}],
"kind2":[{"type":"text","text":"marker"},{"type":f"ACME_TOKEN={B}"}],
"partial":[{"type":"text","text":"marker"},{"type":"toolCall","partialJson":'{"password":"'+B}],
"toolresult":[{"type":"text","text":"marker"},{"type":"toolResult","content":f"ACME_TOKEN={B}"}],
"sig":[{"type":"text","text":"marker"},{"type":"thinking","thinking":"t","thinkingSignature":B,"signature":B}],
"twotok":[{"type":"text","text":"marker ghp_"},{"type":"text","text":B}],
}
for n,c in S.items():
    for role in ("user","assistant","toolResult"):
        k=put(c,role); check(f"{n}/{role}",k,[inner])
for role in (f"ghp_{B}",f"ACME_TOKEN={B}","R"*200000,"user\u001b[31m"):
    k=put(T("marker hello"),role); r=run("history",k,"--as",k); print("ROLE",role[:20],"rc",r[0],"len",len(r[1]),r[1][:160],r[2][:200]); check("role",k,[inner])
k=put([{"type":"X"*200000,"text":"a"},{"type":"text","text":"marker"}]); r=run("history",k,"--as",k); print("KIND len",r[0],len(r[1]),r[1][-260:])
k=put(T("marker hello"),**{"id":"i"*60000}); r=run("history",k,"--as",k); print("ID len",r[0],len(r[1]),r[1][-200:])
print("== label"); 
r=run("append","--session-key","agent:main:lab","--label",f"marker ghp_{B}\x1b]0;pwn\x07\u202e",inp=(json.dumps({"type":"message","id":"z","message":{"role":"user","content":"marker hi \x1b[2J\x9b31m\x1b]52;c;aGk=\x07 \u202e rtl"}})+"\n").encode()); print(r)
for a in (("sessions",),("search","marker","--session-key","agent:main:lab"),("history","agent:main:lab"),("sessions","--as","agent:main:lab"),("search","marker","--as","agent:main:lab"),("history","agent:main:lab","--as","agent:main:lab")):
    for js in (False,True):
        r=run(*a,js=js); o=r[1]+r[2]
        print(a[0],js,"SECRET" if inner in o else "", [repr(c) for c in set(o) if (ord(c)<32 and c not in "\n\t") or 0x7f<=ord(c)<0xa0 or c in "\u202e\u2066\u2028"] if not js else "")
for a in (("history","\x1b[31mx\u202e"),("search","\x1b[","--as","agent:main:lab"),("search","x","--session-key","agent:\x1b[31m:q"),("history","agent:main:lab","--session-id","\x1b]0;x\x07","--message-id","q"),("--agent","\x1b[31m","sessions"),("\x1b[31mfoo",)):
    r=run(*a,js=False); o=r[1]+r[2]; print("ERR",a,[repr(c) for c in set(o) if (ord(c)<32 and c not in "\n\t") or 0x7f<=ord(c)<0xa0 or c in "\u202e"],o[:120].encode("unicode_escape"))
print("== append errors")
for l in (f'{{"type":"message","id":"q","message":{{"role":"user","content":"ACME_TOKEN={B}"}}',f'ACME_TOKEN={B}',f'{{"type":"message","id":"ACME_TOKEN={B}","message":5}}',f'{{"ghp_{B}":}}'):
    r=run("append","--session-key","agent:main:e",inp=(l+"\n").encode()); print(r, "SECRET" if inner in r[1]+r[2] else "")
r=run("search",f"ACME_TOKEN={B}","--explain"); print("explain",r[1][:200])
