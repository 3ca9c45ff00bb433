// Ten operations with the types of openapi-typescript.
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

const client = createClient<paths>({ baseUrl: process.argv[2] });

function ok<T>(name: string, reply: { data?: T; error?: unknown }): T {
  if (reply.data === undefined) throw new Error(`${name}: ${JSON.stringify(reply.error)}`);
  console.log("  ok", name);
  return reply.data;
}

const turn = ok(
  "submit_turn",
  await client.POST("/v1/turns", {
    params: { query: { wait: 20 } },
    body: { strategy: "probe", input: "echo hello", policy: "auto" },
  }),
);
ok("get_turn", await client.GET("/v1/turns/{id}", { params: { path: { id: turn.id } } }));
const turns = ok("list_turns", await client.GET("/v1/turns", {}));
const first: string = turns.data[0]!.strategy;
if (first !== "probe") throw new Error(first);
ok("list_threads", await client.GET("/v1/threads", {}));
ok("get_thread", await client.GET("/v1/threads/{id}", { params: { path: { id: turn.thread_id } } }));
ok("list_strategies", await client.GET("/v1/strategies", {}));
ok("list_batches", await client.GET("/v1/batches", {}));
ok("list_inbox", await client.GET("/v1/inbox", {}));
ok("list_models", await client.GET("/v1/models", {}));
const chat = ok(
  "create_chat_completion",
  await client.POST("/v1/chat/completions", {
    body: { model: "turnfold/probe", messages: [{ role: "user", content: "echo hello" }] },
  }),
);
// A stream would be a text.
if (typeof chat === "string") throw new Error(chat);
if (chat.choices[0]?.message.content !== "Done: hello.") throw new Error(JSON.stringify(chat));
