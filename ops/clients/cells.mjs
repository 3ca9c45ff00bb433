// The cells of a row of the table. A client's file calls `row` with a function, or a reason, for each of them.

export const BASE = process.env.CLIENTS_URL + "/v1";
export const KEY = "any";
export const MODEL = "gpt-4o-mini";
export const PLAIN = "Greet me.";
export const RAIN = "How much rain fell in Oslo?";
export const TYPED = "Which city is the capital of Norway?";
export const ASK = ["turnfold/probe", "ask Which colour? | red | green", "green"];
export const BOOK = ["turnfold/action_plan", "Book a table in Oslo.", "yes"];
export const weather = ({ city }) => `4711 mm in ${city}`;

const EXPECTED = { plain: "Ahoy", stream: "Ahoy", tools: "4711", typed: "Oslo", memory: 'answered "green"', approval: "table 4711" };

export async function joined(stream) {
  const pieces = [];
  for await (const piece of stream) if (piece) pieces.push(piece);
  if (pieces.length < 2) throw new Error(`the answer came in one piece: ${pieces}`);
  return pieces.join("");
}

export async function row(name, cells) {
  for (const [cell, expected] of Object.entries(EXPECTED)) {
    const ask = cells[cell];
    let [says, seen] = ["-", typeof ask === "string" ? ask : ""];
    if (typeof ask === "function") {
      try {
        const answer = await ask();
        const text = typeof answer === "string" ? answer : JSON.stringify(answer);
        [says, seen] = text?.includes(expected) ? ["yes", ""] : ["no", `the answer is ${text?.slice(0, 300)}`];
      } catch (error) {
        if (process.env.CLIENTS_TRACE) console.error(error);
        [says, seen] = ["no", `${error.name}: ${String(error.message).trim().split("\n").pop().slice(0, 400)}`];
      }
    }
    console.log(JSON.stringify({ row: name, cell, says, seen }));
  }
}
