# packages: aisuite[openai]==0.2.0 docstring-parser==0.18.0
import aisuite
from cells import BASE, KEY, MODEL, PLAIN, RAIN, joined, row, weather

client = aisuite.Client({"openai": {"api_key": KEY, "base_url": BASE}})


def ask(text, **more):
    return client.chat.completions.create(model=f"openai:{MODEL}", messages=[{"role": "user", "content": text}], **more)


row(
    "aisuite",
    plain=lambda: ask(PLAIN).choices[0].message.content,
    stream=lambda: joined(chunk.choices[0].delta.content for chunk in ask(PLAIN, stream=True) if chunk.choices),
    tools=lambda: ask(RAIN, tools=[weather], max_turns=3).choices[0].message.content,
    typed="has no typed output",
)
