# packages: langchain-openai==1.7.4 langgraph==1.2.24 langchain==1.5.2
import pydantic
from cells import ASK, BASE, BOOK, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent


class Place(pydantic.BaseModel):
    """A place."""

    city: str
    population: int


def tools(model):
    bound = model.bind_tools([weather])
    first = bound.invoke(RAIN)
    [call] = first.tool_calls
    result = {"role": "tool", "tool_call_id": call["id"], "content": weather(**call["args"])}
    return bound.invoke([("user", RAIN), first, result]).text


def talk(name, first, answer, **settings):
    model = ChatOpenAI(model=name, base_url=BASE, api_key=KEY, **settings)
    agent = create_agent(model, [], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", first)]}, thread)
    return agent.invoke({"messages": [("user", answer)]}, thread)["messages"][-1].text


for name, settings in [("langchain-openai py", {}), ("langchain-openai py, use_responses_api", {"use_responses_api": True})]:
    model = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, **settings)
    row(
        name,
        plain=lambda: model.invoke(PLAIN).text,
        stream=lambda: joined(chunk.text for chunk in model.stream(PLAIN)),
        tools=lambda: tools(model),
        typed=lambda: model.with_structured_output(Place).invoke(TYPED),
        memory=lambda: talk(*ASK, **settings),
        approval=lambda: talk(*BOOK, **settings),
    )


def agent_row(name, create):
    model = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY)
    ask = lambda agent, text: agent.invoke({"messages": [("user", text)]})  # noqa: E731
    row(
        name,
        plain=lambda: ask(create(model, [weather]), PLAIN)["messages"][-1].text,
        stream=lambda: joined(
            chunk.text for chunk, _ in create(model, [weather]).stream({"messages": [("user", PLAIN)]}, stream_mode="messages")
        ),
        tools=lambda: ask(create(model, [weather]), RAIN)["messages"][-1].text,
        typed=lambda: ask(create(model, [], response_format=Place), TYPED)["structured_response"],
    )


agent_row("langchain create_agent", create_agent)
agent_row("langgraph create_react_agent", create_react_agent)
