# packages: instructor==1.17.0 openai==3.3.0
import instructor
import openai
import pydantic
from cells import BASE, KEY, MODEL, PLAIN, TYPED, joined, row

client = instructor.from_openai(openai.OpenAI(base_url=BASE, api_key=KEY))


class Place(pydantic.BaseModel):
    city: str
    population: int


def messages(text):
    return [{"role": "user", "content": text}]


def ask(text, model, **more):
    return client.chat.completions.create(model=MODEL, messages=messages(text), response_model=model, **more)


row(
    "instructor",
    plain=lambda: ask(PLAIN, None).choices[0].message.content,
    stream=lambda: joined(chunk.choices[0].delta.content for chunk in ask(PLAIN, None, stream=True) if chunk.choices),
    tools="its purpose is typed output",
    typed=lambda: [*client.chat.completions.create_partial(model=MODEL, messages=messages(TYPED), response_model=Place), ask(TYPED, Place)][-1],
)
