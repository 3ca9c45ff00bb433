# packages: openai-agents==0.24.0
import agents
import pydantic
from agents import Agent, Runner, function_tool
from cells import MODEL, PLAIN, RAIN, TYPED, joined, row, weather

agents.set_tracing_disabled(True)
tool = function_tool(weather)


class Place(pydantic.BaseModel):
    city: str
    population: int


def ask(text, **more):
    return Runner.run_sync(Agent(name="helper", model=MODEL, instructions="Be brief.", **more), text)


async def stream():
    run = Runner.run_streamed(Agent(name="helper", model=MODEL), PLAIN)
    deltas = [event.data.delta async for event in run.stream_events() if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
    return joined(deltas)


def tools():
    expert = Agent(name="expert", model=MODEL, tools=[tool])
    done = ask(RAIN, handoffs=[expert])
    assert done.last_agent is expert, done.last_agent
    return ask(RAIN, tools=[tool]).final_output


for name, api in [("openai-agents py", "responses"), ("openai-agents py, chat_completions", "chat_completions")]:
    agents.set_default_openai_api(api)
    row(name, plain=lambda: ask(PLAIN).final_output, stream=stream, tools=tools, typed=lambda: ask(TYPED, output_type=Place).final_output)
