# packages: outlines[openai]==1.3.3
import openai
import outlines
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, TYPED, joined, row

model = outlines.from_openai(openai.OpenAI(base_url=BASE, api_key=KEY), MODEL)


class Place(pydantic.BaseModel):
    city: str
    population: int


row("outlines", plain=lambda: model(PLAIN), stream=lambda: joined(model.stream(PLAIN)), tools="has no tools", typed=lambda: model(TYPED, Place))
