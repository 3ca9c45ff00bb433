# packages: crewai==1.15.30
import os

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true")
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from crewai import LLM, Agent
from crewai.tools import tool


class Place(pydantic.BaseModel):
    city: str
    population: int


def agent(**more):
    model = LLM(model=f"openai/{MODEL}", base_url=BASE, api_key=KEY)
    return Agent(role="helper", goal="Help.", backstory="You help.", llm=model, verbose=False, **more)


def stream():
    from crewai.events import LLMStreamChunkEvent, crewai_event_bus

    pieces = []
    with crewai_event_bus.scoped_handlers():
        crewai_event_bus.on(LLMStreamChunkEvent)(lambda _, event: pieces.append(event.chunk))
        LLM(model=f"openai/{MODEL}", base_url=BASE, api_key=KEY, stream=True).call(PLAIN)
        crewai_event_bus.flush()
    return joined(pieces)


row(
    "crewai",
    plain=lambda: agent().kickoff(PLAIN).raw,
    stream=stream,
    tools=lambda: agent(tools=[tool("weather")(weather)]).kickoff(RAIN).raw,
    typed=lambda: agent().kickoff(TYPED, response_format=Place).pydantic,
)
