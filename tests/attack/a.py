import subprocess, json, os, sys, shutil, itertools
BIN=os.environ.get("BIN","ATTACK_DIR/ss"); ROOT="ATTACK_DIR/r/store"
shutil.rmtree(ROOT,ignore_errors=True)
def run(*a,inp=None,t=60,js=True):
    cmd=["nice",BIN,"--store",ROOT]+(["--json"] if js else [])+list(a)
    p=subprocess.run(cmd,input=inp,capture_output=True,timeout=t)
    return p.returncode,p.stdout.decode("utf8","replace"),p.stderr.decode("utf8","replace")
def msg(i,t,role="user",**k):
    return json.dumps({"type":"message","id":i,"timestamp":"2026-01-01T00:00:00Z","message":{"role":role,"content":t if not isinstance(t,str) else [{"type":"text","text":t}],**k}})
def app(agent,key,sid,lines,*extra):
    r=run("--agent",agent,"append","--session-key",key,"--session-id",sid,*extra,inp=("\n".join(lines)+"\n").encode())
    if r[0]: print("APPEND",agent,key,r)
    return r
U=lambda n:f"00000000-0000-4000-8000-{n:012d}"
M=[]
def add(agent,key,n,*extra):
    app(agent,key,U(n),[msg(f"m{n}",f"otter canary{n} hello")],*extra); M.append((agent,key,n,extra))
add("main","agent:main:main",1)
add("main","agent:main:subagent:c1",2,"--spawned-by","agent:main:main")
add("main","agent:main:subagent:c1:subagent:g1",3,"--spawned-by","agent:main:subagent:c1")
add("main","agent:main:telegram:group:7",4)
add("main","global",5)
add("main","unknown",6)
add("main","cron:nightly",7)
add("main","agent:main:cron:nightly:run:1",8)
add("main","legacy-thing",9)
add("main","agent:main:dashboard:d1",10,"--parent","agent:main:main")
add("work","agent:work:main",11)
add("work","agent:work:acp:k1",12,"--spawned-by","agent:main:main")
add("work","global",13)
add("work","cron:w",14)
add("work","cron:wc",15,"--spawned-by","main")
add("other","agent:other:main",16)
add("main","agent:work:main",17)   # key of another agent in main's store
add("main","agent:main:subagent:arch",18,"--spawned-by","agent:main:main")
add("main","agent:main:cron:job:run:2",19,"--spawned-by","agent:main:main")
run("archive","agent:main:subagent:arch")
print("incognito",run("append","--session-key","agent:main:dashboard:incognito-1",inp=b"{}\n"))
def seen(*a):
    rc,o,e=run("search","otter","--limit","25",*a)
    try: d=json.loads(o)
    except Exception: return rc,o,e
    if "results" in d: return rc,sorted(int(h["messageId"][1:]) for h in d["results"]),d["coverage"],d.get("truncated"),d.get("reason")
    return rc,d,e
print("== listing")
for who in ["agent:main:main","agent:main:subagent:c1","agent:work:main","agent:main:telegram:group:7","global","cron:nightly","agent:other:main"]:
    for mode in ["self","tree","agent","all"]:
        print(who,mode,seen("--as",who,"--visibility",mode))
    print(who,"all+a2a*",seen("--as",who,"--visibility","all","--agent-to-agent","*"))
    print(who,"sbx all a2a",seen("--as",who,"--visibility","all","--agent-to-agent","*","--sandboxed"))
print("== flags without --as / blank")
for a in (["--visibility","self"],["--sandboxed"],["--agent-to-agent","*"],["--as",""],["--as","  "],["--as","current"],["--as","main"],["--as","agent:work:main","--agent","main"],["--as","../x"],["--as","agent:main:dashboard:incognito-1"]):
    print(a,seen(*a)); 
for a in (["sessions","--visibility","self"],["history","agent:main:main","--sandboxed"],["sessions","--as",""],["history","global","--as"," "]):
    print(a,[x[:160] for x in run(*a)[1:]])
print("== explicit, tree requester main: hidden vs missing must be equal after replacing the given text")
R="agent:main:telegram:group:7"
def norm(x,g): return x.replace(json.dumps(g)[1:-1],"<G>").replace(g,"<G>")
pairs=[(U(1),U(901)),(U(3),U(903)),(U(11),U(904)),(U(13),U(905)),("agent:main:main","agent:main:mainx"),("agent:work:main","agent:work:nope"),("agent:other:main","agent:nope:main"),("legacy-thing","legacy-nope"),("cron:nightly","cron:nope"),("unknown","global"),("agent:main:cron:nightly:run:1","agent:main:cron:nightly:run:9"),("cron:w","cron:wq"),("m1","m901"),("legacy-THING","legacy-NOPE")]
for cmd in ("search","history","anch"):
  for extra in (["--as",R],["--as",R,"--sandboxed"],["--as",R,"--visibility","self"],["--as","agent:work:main"],["--as","agent:other:main","--visibility","all","--agent-to-agent","other"]):
    for h,m in pairs:
        def q(k):
            if cmd=="search": r=run("search","otter","--session-key",k,*extra)
            elif cmd=="history": r=run("history",k,*extra)
            else: r=run("history",R if extra[1]==R else extra[1],"--message-id","m1","--session-id",k,*extra)
            return r[0],norm(r[1],k),norm(r[2],k)
        a,b=q(h),q(m)
        if a!=b: print("DIFF",cmd,extra,h,m,"\n   ",a,"\n   ",b)
print("== spelling tricks to hidden; any answer with canary?")
forms=lambda k:[k,k.upper()," "+k+" ","\u00a0"+k,"\ufeff"+k,k.replace(":","::"),k.replace(":",": "),k.replace("a","а"),k.replace("i","İ"),k.replace("k","\u212a"),k+"\u200b",k+"\x00" if 0 else k+"/",k+"/../","./"+k,"agents"+k,k+":", ":"+k]
for a,k,n,_ in M:
    for f in forms(k)+forms(U(n)):
        for who,mode in ((R,"tree"),(R,"self"),("agent:other:main","agent"),("agent:other:main","all")):
            for r in (run("search","otter","--session-key",f,"--as",who,"--visibility",mode),run("history",f,"--as",who,"--visibility",mode)):
                own = {R:4,"agent:other:main":16}[who]
                for m2 in M:
                    if m2[2]!=own and f"canary{m2[2]} " in r[1] : 
                        if not(who=="agent:other:main" and m2[0]=="other"): print("LEAK",who,mode,repr(f),m2,r[1][:300])
                if r[0]==70 or "panick" in r[2]: print("CRASH",f,r)
print("== foreign bare by session id with a2a")
for n in (13,14,15,12,11):
    print(n,[run(c[0],*c[1:],"--as","agent:main:main","--visibility","all","--agent-to-agent","*")[1][:230] for c in (["search","otter","--session-key",U(n)],["history",U(n)])])
print("== paging")
for o in ("0","1","3","99","18446744073709551615"):
    print(o,seen("--as","agent:main:main","--offset",o,"--limit","2")[0:5] if 0 else run("search","otter","--limit","2","--offset",o,"--as","agent:main:main")[1][-200:])
print(run("search","otter","--limit","26","--as",R)); print(run("search","otter","--explain","--as",R)); print([x[:200] for x in map(str,run("search","otter","--as",R,"--from",ROOT))])
print([x[:200] for x in map(str,run("search","otter","--as",R,"--wait"))]); print([str(x)[:300] for x in run("sessions","--as",R)])
