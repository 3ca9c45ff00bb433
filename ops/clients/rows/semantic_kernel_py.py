# packages: semantic-kernel==1.45.0
import openai
import pydantic
from cells import ASK, BASE, BOOK, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


class Place(pydantic.BaseModel):
    city: str
    population: int


def service(model=MODEL):
    return OpenAIChatCompletion(ai_model_id=model, async_client=openai.AsyncOpenAI(base_url=BASE, api_key=KEY))


def history(text):
    history = ChatHistory()
    history.add_user_message(text)
    return history


async def plain():
    return str(await service().get_chat_message_content(history(PLAIN), OpenAIChatPromptExecutionSettings()))


async def stream():
    pieces = service().get_streaming_chat_message_content(history(PLAIN), OpenAIChatPromptExecutionSettings())
    return joined([str(piece) async for piece in pieces])


class Weather:
    @kernel_function(description="Rain that fell.")
    def weather(self, city: str) -> str:
        return weather(city)


async def tools():
    return str(await ChatCompletionAgent(service=service(), name="helper", plugins=[Weather()]).get_response(RAIN))


async def typed():
    settings = OpenAIChatPromptExecutionSettings(response_format=Place)
    return str(await service().get_chat_message_content(history(TYPED), settings))


async def talk(model, first, answer):
    talk, agent = history(first), service(model)
    talk.add_message(await agent.get_chat_message_content(talk, OpenAIChatPromptExecutionSettings()))
    talk.add_user_message(answer)
    return str(await agent.get_chat_message_content(talk, OpenAIChatPromptExecutionSettings()))


async def memory():
    return await talk(*ASK)


async def approval():
    return await talk(*BOOK)


row("semantic-kernel", plain=plain, stream=stream, tools=tools, typed=typed, memory=memory, approval=approval)
