# packages: google-adk==2.13.0 litellm==1.110.2
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types


class Place(pydantic.BaseModel):
    city: str
    population: int


async def texts(text, mode=StreamingMode.NONE, **more):
    agent = LlmAgent(name="helper", model=LiteLlm(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY), **more)
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="ada")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    run = runner.run_async(user_id="ada", session_id=session.id, new_message=message, run_config=RunConfig(streaming_mode=mode))
    return [(event.partial, part.text) async for event in run for part in (event.content.parts if event.content else []) if part.text]


async def plain():
    return (await texts(PLAIN))[-1][1]


async def stream():
    return joined([text for partial, text in await texts(PLAIN, StreamingMode.SSE) if partial])


async def tools():
    return (await texts(RAIN, tools=[weather]))[-1][1]


async def typed():
    return (await texts(TYPED, output_schema=Place))[-1][1]


row("google-adk LiteLlm", plain=plain, stream=stream, tools=tools, typed=typed)
