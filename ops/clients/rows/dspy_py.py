# packages: dspy==3.4.1
import dspy
from cells import BASE, KEY, MODEL, PLAIN, RAIN, TYPED, row, weather

model = dspy.LM(f"openai/{MODEL}", api_base=BASE, api_key=KEY, cache=False)
dspy.configure(lm=model)


class Capital(dspy.Signature):
    question: str = dspy.InputField()
    city: str = dspy.OutputField()
    population: int = dspy.OutputField()


row(
    "dspy",
    plain=lambda: model(PLAIN)[0],
    stream="streams only by an asynchronous program of its own",
    tools=lambda: dspy.ReAct("question -> answer", tools=[weather])(question=RAIN).answer,
    typed=lambda: dspy.Predict(Capital)(question=TYPED),
)
