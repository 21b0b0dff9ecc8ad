import subprocess, json, time
BIN="ATTACK_DIR/ss"; ROOT="ATTACK_DIR/r/store"
def srv(): return subprocess.Popen([BIN,"--store",ROOT,"mcp"],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=subprocess.PIPE)
a,b=srv(),srv()
def ask(p,i,args={"query":"otter"}):
    s=time.time(); p.stdin.write(json.dumps({"jsonrpc":"2.0","id":i,"method":"tools/call","params":{"name":"sessions_search","arguments":args}}).encode()+b"\n"); p.stdin.flush()
    d=json.loads(p.stdout.readline()); r=d["result"]; return round(time.time()-s,2), r["isError"], len(r.get("structuredContent",{}).get("results",[])), r["content"][0]["text"][:140] if r["isError"] else ""
print("A",ask(a,1)); print("B right after",ask(b,1)); print("A",ask(a,2))
s=time.time(); p=subprocess.run([BIN,"--store",ROOT,"--json","sessions"],capture_output=True); print("program",p.returncode,round(time.time()-s,2),p.stdout[:80])
time.sleep(1.6); s=time.time(); p=subprocess.run([BIN,"--store",ROOT,"--json","sessions"],capture_output=True); print("program idle",p.returncode,round(time.time()-s,2))
l=json.dumps({"type":"message","id":"shared1","message":{"role":"user","content":"zebrafish"}})
print("A",ask(a,3)); p=subprocess.run([BIN,"--store",ROOT,"--json","append","--session-key","agent:main:main"],input=l.encode()+b"\n",capture_output=True); print("append while A holds",p.returncode,p.stdout[:120])
print("A sees",ask(a,4,{"query":"zebrafish"})); print("B sees",ask(b,4,{"query":"zebrafish"}))
# A constantly busy, B and program must still get through
import threading; stop=[False]; n=[0]; errs=[]
def busy():
    i=100
    while not stop[0]:
        r=ask(a,i); i+=1; n[0]+=1
        if r[1]: errs.append(r)
t=threading.Thread(target=busy); t.start(); time.sleep(0.3); print("B with A busy",ask(b,5)); p=subprocess.run([BIN,"--store",ROOT,"--json","sessions"],capture_output=True); print("program with A busy",p.returncode,p.stdout[:100]); stop[0]=True; t.join(); print("A calls",n[0],"errors",len(errs),errs[:1])
for x in (a,b): x.stdin.close(); print("exit",x.wait(10))
