# packages: magentic==0.41.1
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, joined, row, weather
from magentic import OpenaiChatModel, StreamedStr, prompt, prompt_chain

model = OpenaiChatModel(MODEL, base_url=BASE, api_key=KEY)


class Place(pydantic.BaseModel):
    city: str
    population: int


def ask(text, kind, maker=prompt, **more):
    def function(): ...

    function.__annotations__["return"] = kind
    return maker(text, model=model, **more)(function)()


row(
    "magentic",
    plain=lambda: ask(PLAIN, str),
    stream=lambda: joined(ask(PLAIN, StreamedStr)),
    tools=lambda: ask(RAIN, str, prompt_chain, functions=[weather]),
    typed=lambda: ask(TYPED, Place),
)
