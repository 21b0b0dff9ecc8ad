import subprocess,json,time,threading
BIN="ATTACK_DIR/ss"; ROOT="ATTACK_DIR/r/store"
for n in range(4):
    a=subprocess.Popen([BIN,"--store",ROOT,"mcp"],stdin=subprocess.PIPE,stdout=subprocess.PIPE); stop=[False]; c=[0]
    def busy(gap):
        while not stop[0]:
            a.stdin.write(json.dumps({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sessions_search","arguments":{"query":"otter"}}}).encode()+b"\n"); a.stdin.flush(); a.stdout.readline(); c[0]+=1; time.sleep(gap)
    gap=[0,0.05,0.3,0.8][n]; t=threading.Thread(target=busy,args=(gap,)); t.start(); time.sleep(.5); res=[]
    for _ in range(3):
        s=time.time(); p=subprocess.run(["nice",BIN,"--store",ROOT,"--json","sessions"],capture_output=True); res.append((p.returncode,round(time.time()-s,1)))
    stop[0]=True; t.join(); a.stdin.close(); a.wait(); print("gap",gap,"program:",res,"calls",c[0],flush=True)
