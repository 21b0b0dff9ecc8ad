"""Drives the MCP server with the official SDK: lists the tools, calls each, holds the answers against the schemas.

Usage: mcp_client.py PROGRAM [ARGUMENT…]
"""

import asyncio
import os
import sys

import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def field(value, *names):
    """A field under the first name that this version of the SDK has."""
    for name in names:
        if hasattr(value, name):
            return getattr(value, name)
    raise AttributeError(f"{value!r} has none of {names}")


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert sorted(tools) == ["sessions_history", "sessions_list", "sessions_search"], tools
        for tool in tools.values():
            assert field(tool.annotations, "readOnlyHint", "read_only_hint") is True
            for names in (("inputSchema", "input_schema"), ("outputSchema", "output_schema")):
                schema = field(tool, *names)
                jsonschema.validators.validator_for(schema).check_schema(schema)

        async def call(name, arguments):
            result = await session.call_tool(name, arguments)
            if field(result, "isError", "is_error"):
                return result.content[0].text
            answer = field(result, "structuredContent", "structured_content")
            jsonschema.validate(answer, field(tools[name], "outputSchema", "output_schema"))
            return answer

        found = await call("sessions_search", {"query": "otter"})
        hit = found["results"][0]
        page = await call(
            "sessions_history",
            {"sessionKey": hit["sessionKey"], "sessionId": hit["sessionId"], "messageId": hit["messageId"]},
        )
        assert page["anchor"] == "found", page
        assert any(message["messageId"] == hit["messageId"] for message in page["messages"])
        listed = await call("sessions_list", {"limit": 5})
        assert listed["count"] == len(listed["sessions"]) > 0
        refused = await call("sessions_search", {"query": "otter", "sessionKey": "agent:work:main"})
        assert refused["status"] == "forbidden", refused
        assert "at most 25" in await call("sessions_search", {"query": "otter", "limit": 26})
        print("ok")


asyncio.run(main())
