import subprocess, json, os, time, threading
BIN=os.environ.get("BIN","ATTACK_DIR/ss"); ROOT="ATTACK_DIR/r/store"
def mcp(lines,*a,raw=None,t=60):
    data=raw if raw is not None else b"".join((l if isinstance(l,bytes) else json.dumps(l).encode())+b"\n" for l in lines)
    s=time.time(); p=subprocess.run(["nice",BIN,"--store",ROOT,"mcp",*a],input=data,capture_output=True,timeout=t)
    out=p.stdout.split(b"\n"); bad=[]
    fr=[]
    for l in out:
        if not l: continue
        try: 
            d=json.loads(l); fr.append(d)
            for x in (d if isinstance(d,list) else [d]): assert x.get("jsonrpc")=="2.0" and (("result" in x)!=("error" in x)),x
        except Exception as e: bad.append((l[:200],e))
    return p.returncode,fr,bad,p.stderr[:300],round(time.time()-s,2),len(p.stdout)
def call(n,args,i=1): return {"jsonrpc":"2.0","id":i,"method":"tools/call","params":{"name":n,"arguments":args}}
R="agent:main:telegram:group:7"
def show(name,r,n=260): print(name,"rc",r[0],"bad",r[2],"t",r[4],"len",r[5],"err",r[3][:120],"|",json.dumps(r[1])[:n])
U=lambda n:f"00000000-0000-4000-8000-{n:012d}"
for a in ([],["--operator"],["--as",R],["--as",R,"--operator"],["--as",""],["--visibility","self"],["--sandboxed"],["--visibility","all","--agent-to-agent","*"],["--agent","../x"],["--as","agent:work:main"]):
    show(str(a),mcp([call("sessions_search",{"query":"otter","limit":25})],*a),200)
extra={"query":"otter","as":"agent:main:main","agentId":"work","agent":"work","visibility":"all","requester":"agent:main:main","operator":True,"sandboxed":False,"spawnedBy":"agent:main:main","session_keys":["agent:main:main"],"sessionKeys":["agent:main:main"],"scope":"all","includeArchived":True,"explain":True,"offset":0,"_meta":{"operator":True}}
show("extra",mcp([call("sessions_search",extra)],"--as",R),500)
print("== differential hidden/missing over MCP")
args=[]
for h,m in ((U(1),U(901)),(U(11),U(904)),(U(13),U(905)),("agent:main:main","agent:main:nope"),("agent:work:main","agent:zzz:main"),("legacy-thing","legacy-nopee"),("unknown","global")):
    for tool,mk in (("sessions_search",lambda k:{"query":"otter","sessionKey":k}),("sessions_history",lambda k:{"sessionKey":k}),("sessions_history",lambda k:{"sessionKey":R,"messageId":"m1","sessionId":k}),("sessions_history",lambda k:{"sessionKey":k,"offset":0}),("sessions_list",lambda k:{"label":k})):
        a=mcp([call(tool,mk(h))],"--as",R); b=mcp([call(tool,mk(m))],"--as",R)
        na=json.dumps(a[1]).replace(h,"<G>"); nb=json.dumps(b[1]).replace(m,"<G>")
        if na!=nb or a[2] or b[2]: print("DIFF",tool,h,m,na[:300],nb[:300])
show("history m1 current",mcp([call("sessions_history",{"sessionKey":"current","messageId":"m1"})],"--as",R))
print("== types")
vals=[None,True,0,-1,1.5,1e308,"",[],{}, "x"*100000,"\u0000","\ud800","9"*400,[["a"]],{"a":1},2**64,2**53,"١٢"]
ls=[];i=0
for tool,fs in (("sessions_search",["query","sessionKey","limit","role","since","until","order","match"]),("sessions_history",["sessionKey","messageId","sessionId","limit","offset","includeTools"]),("sessions_list",["kinds","label","activeMinutes","archived","limit","offset"])):
    for f in fs:
        for v in vals:
            i+=1; base={"query":"otter"} if tool=="sessions_search" else ({"sessionKey":"current"} if tool=="sessions_history" else {})
            base[f]=v; ls.append(call(tool,base,i))
r=mcp(ls,"--as",R); ids={x.get("id") for x in r[1]}
print("types",len(ls),len(r[1]),"bad",r[2][:3],"rc",r[0],r[3]); print("internal",[x for x in r[1] if "error" in x][:6]); 
print("leak",[json.dumps(x)[:200] for x in r[1] if any(f"canary{n} " in json.dumps(x) for n in range(1,20) if n!=4)][:3])
print("big",sorted([(len(json.dumps(x)),x["id"]) for x in r[1] if x.get("id")])[-3:])
print("== protocol")
dup=b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"sessions_search","arguments":{"query":"otter","sessionKey":"current","sessionKey":"agent:main:main","session_key":"agent:work:main"}}}'
for nm,raw in {"garbage":b"hello\n\x00\xff\xfe\n{\n[1,2\n\"x\"\n5\nnull\ntrue\n[]\n[1,null]\n{}\n","utf8":b'{"jsonrpc":"2.0","id":1,"method":"ping\xff"}\n',"deep":b"["*200000+b"\n"+b'{"a":'*100000+b"\n","dup":dup+b"\n","eofmid":b'{"jsonrpc":"2.0","id":1,"method":"pi',"noeol":b'{"jsonrpc":"2.0","id":1,"method":"ping"}',"notif":b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"sessions_search"}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n',"idnull":b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n{"jsonrpc":"2.0","id":{},"method":"ping"}\n{"jsonrpc":"2.0","id":1e400,"method":"ping"}\n{"jsonrpc":"1.0","id":3,"method":"ping"}\n{"id":4,"method":"ping"}\n{"jsonrpc":"2.0","id":5,"method":7}\n',"batch":json.dumps([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},5]).encode()+b"\n","empty":b"","crlf":b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n\r\n',"bom":b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}\n',"cr-in":b'{"jsonrpc":"2.0","id":1,"method":"a\\nb\\u2028\\u001b[31m"}\n'}.items():
    show(nm,mcp(None,"--as",R,raw=raw),420)
for v in ("1999-01-01",None,5,"2025-11-25","9999-99-99",{"a":1}):
    r=mcp([{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":v}}]); print("ver",v,r[1][0].get("result",{}).get("protocolVersion"),r[1][0].get("error"))
big=b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"'+b"a"*100_000_000+b'"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n'
show("100MB",mcp(None,"--as",R,raw=big,t=120))
for size in (4*1024*1024-1,4*1024*1024,4*1024*1024+1):
    l=b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"'; body=l+b"a"*(size-len(l)-2)+b'"}'
    show(f"size{size}+nl",mcp(None,raw=body+b'\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n'),160); show(f"size{size} eof",mcp(None,raw=body),160)
show("huge method",mcp([{"jsonrpc":"2.0","id":1,"method":"\u0001"*600000}]),100)
show("huge tool",mcp([call("\u0001"*600000,{})]),100)
show("huge key",mcp([call("sessions_history",{"sessionKey":"x"*3000000}),call("sessions_history",{"sessionKey":"x\u0001"*200}),call("sessions_history",{"sessionKey":"current","messageId":"a","sessionId":"y"*3000000})],"--as",R),600)
show("batchamp",mcp(None,"--as",R,raw=json.dumps([call("sessions_search",{"query":"otter"},i) for i in range(20000)]).encode()+b"\n"),100)
