// The official TypeScript client of the Model Context Protocol, line by line: a question in JSON, and its answer.
// Arguments: an address of a server over HTTP and perhaps a token, or the command of a server over standard input.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [first, ...rest] = process.argv.slice(2);
const client = new Client({ name: "test", version: "0" });

function transport() {
  if (!first.startsWith("http")) return new StdioClientTransport({ command: first, args: rest, env: process.env });
  const headers = rest.length ? { Authorization: `Bearer ${rest[0]}` } : {};
  return new StreamableHTTPClientTransport(new URL(first), { requestInit: { headers } });
}

async function answer(question) {
  if (question.list) return client.listTools();
  return client.callTool({ name: question.name, arguments: question.arguments });
}

await client.connect(transport());
// The client checks answers against the schemas that it was told.
await client.listTools();
for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  } catch (problem) {
    console.log(JSON.stringify({ failed: String(problem) }));
  }
}
await client.close();
