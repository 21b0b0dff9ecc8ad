exec(open("ATTACK_DIR/s.py").read().split("inner=B[7:15]")[0])
for name,i in (("ctl","\u0001"*60000),("quote",'"'*60000),("plain","i"*60000)):
    k=put([{"type":"text","text":"marker hi"}],**{"id":i}); r=run("history",k,"--as",k); j=json.loads(r[1]); print(name,r[0],len(r[1]),"bytes",j.get("bytes"),"limit 81920",j.get("error"), "search:",run("search","marker","--session-key",k,"--as",k)[1][:120])
k="agent:main:many"; 
d="".join(json.dumps({"type":"message","id":f"r{i}","message":{"role":"user","content":"x"}})+"\n" for i in range(3))
