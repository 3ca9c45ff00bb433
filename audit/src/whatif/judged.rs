//! Pairs of answers after a judge ruled on them, once in each order.

use serde::Serialize;

use super::limit::{beyond_chance, interval, percent};
use crate::judge::{Choice, Opinion};

/// Ruling on the changed answer beside the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The changed answer is better, in both orders.
    Better,
    /// The changed answer is worse, in both orders.
    Worse,
    /// Neither is better, in both orders.
    Tie,
    /// The two orders had different results.
    Inconsistent,
    /// A question got no verdict.
    NotJudged,
}

impl Ruling {
    /// Names the ruling.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Tie => "tie",
            Self::Inconsistent => "inconsistent",
            Self::NotJudged => "not judged",
        }
    }
}

/// Verdicts of a judge on the two answers of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Ruling that follows from both verdicts.
    pub ruling: Ruling,
    /// Verdict with the recorded answer first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_first: Option<Opinion<Choice>>,
    /// Verdict with the changed answer first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_first: Option<Opinion<Choice>>,
    /// Reason why a question got no verdict; absent if both did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
    /// Requests to the judge, failed ones included.
    pub requests: u64,
    /// Cost of the requests in US dollars.
    pub usd: f64,
}

/// End of one question to a judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<T> {
    /// The verdict, or the reason why there is none.
    pub opinion: Result<Opinion<T>, String>,
    /// Requests to the judge, failed ones included.
    pub requests: u64,
    /// Cost of the requests in US dollars.
    pub usd: f64,
}

impl Judged {
    /// Combines the ends of both questions about a thread.
    pub fn of(recorded_first: Verdict<Choice>, changed_first: Verdict<Choice>) -> Self {
        let requests = recorded_first.requests + changed_first.requests;
        let usd = recorded_first.usd + changed_first.usd;
        let not_judged =
            [&recorded_first, &changed_first].into_iter().find_map(|asked| asked.opinion.clone().err());
        let (recorded_first, changed_first) = (recorded_first.opinion.ok(), changed_first.opinion.ok());
        let ruling = match (&recorded_first, &changed_first) {
            (Some(one), Some(other)) => ruling(one.verdict, other.verdict),
            (None, _) | (_, None) => Ruling::NotJudged,
        };
        Self { ruling, recorded_first, changed_first, not_judged, requests, usd }
    }
}

/// Returns the ruling on the changed answer. It is the second one of the first question.
fn ruling(recorded_first: Choice, changed_first: Choice) -> Ruling {
    match (recorded_first, changed_first) {
        (Choice::Second, Choice::First) => Ruling::Better,
        (Choice::First, Choice::Second) => Ruling::Worse,
        (Choice::Tie, Choice::Tie) => Ruling::Tie,
        (Choice::First | Choice::Second | Choice::Tie, _) => Ruling::Inconsistent,
    }
}

/// Number of threads by ruling, and the agreement of the two orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JudgedSummary {
    /// Number of threads with a verdict in both orders.
    pub judged: u64,
    /// Number of them whose changed answer is better.
    pub better: u64,
    /// Number of them whose changed answer is worse.
    pub worse: u64,
    /// Number of them in which neither answer is better.
    pub tie: u64,
    /// Number of them whose orders disagree.
    pub inconsistent: u64,
    /// Number of them in which the judge chose the first answer in both orders.
    pub first_in_both: u64,
    /// Number of them in which the judge chose the second answer in both orders.
    pub second_in_both: u64,
    /// Number of threads with a question that got no verdict.
    pub not_judged: u64,
    /// Requests to the judge, failed ones included.
    pub requests: u64,
    /// Cost of the requests in US dollars.
    pub spent_usd: f64,
}

impl JudgedSummary {
    pub(super) fn add(&mut self, judged: &Judged) {
        self.requests += judged.requests;
        self.spent_usd += judged.usd;
        let chosen = |opinion: &Option<Opinion<Choice>>| opinion.as_ref().map(|opinion| opinion.verdict);
        let chosen = (chosen(&judged.recorded_first), chosen(&judged.changed_first));
        let count = match judged.ruling {
            Ruling::Better => &mut self.better,
            Ruling::Worse => &mut self.worse,
            Ruling::Tie => &mut self.tie,
            Ruling::Inconsistent => &mut self.inconsistent,
            Ruling::NotJudged => {
                self.not_judged += 1;
                return;
            }
        };
        *count += 1;
        self.judged += 1;
        self.first_in_both += u64::from(chosen == (Some(Choice::First), Some(Choice::First)));
        self.second_in_both += u64::from(chosen == (Some(Choice::Second), Some(Choice::Second)));
    }

    /// Number of threads whose two orders agree.
    pub fn agreed(&self) -> u64 {
        self.judged - self.inconsistent
    }

    /// Returns the interval of each share of the judged threads, by name. See [`interval`].
    pub fn intervals(&self) -> [(&'static str, Option<[f64; 2]>); 5] {
        let of = |part| interval(part, self.judged);
        [
            ("better_percent_95", of(self.better)),
            ("worse_percent_95", of(self.worse)),
            ("agreed_percent_95", of(self.agreed())),
            ("first_in_both_percent_95", of(self.first_in_both)),
            ("second_in_both_percent_95", of(self.second_in_both)),
        ]
    }

    /// Returns [`Ruling::Worse`] or [`Ruling::Better`] if one of both is more frequent than the other beyond chance, at 95 %.
    pub fn tendency(&self) -> Option<Ruling> {
        let (more, ruling) = match self.better < self.worse {
            true => (self.worse, Ruling::Worse),
            false => (self.better, Ruling::Better),
        };
        beyond_chance(more, self.worse + self.better).then_some(ruling)
    }

    /// Returns a sentence if the judge favours a position.
    ///
    /// ## Why it compares the two positions
    ///
    /// A judge that guesses chooses the same position in both orders for half of the pairs, but each position equally often. One that
    /// favours a position chooses it more often than the other, beyond chance.
    pub fn bias(&self) -> Option<String> {
        let both = self.first_in_both + self.second_in_both;
        let (position, times) = match self.second_in_both < self.first_in_both {
            true => ("first", self.first_in_both),
            false => ("second", self.second_in_both),
        };
        if !beyond_chance(times, both) {
            return None;
        }
        let [low, high] = interval(times, self.judged)?;
        let share = percent(times, self.judged);
        let weight = match share < 50.0 {
            true => "these threads are counted as inconsistent",
            false => "its verdicts say little",
        };
        Some(format!(
            "The judge chose the {position} answer in both orders in {share:.0} % of {} threads ({low:.0} to {high:.0} %, at 95 %): {weight}.",
            self.judged
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verdict: Choice) -> Verdict<Choice> {
        Verdict { opinion: Ok(Opinion { verdict, reason: "it is".to_owned() }), requests: 1, usd: 0.5 }
    }

    fn summary(pairs: &[(Choice, Choice, usize)]) -> JudgedSummary {
        let mut summary = JudgedSummary::default();
        for (one, other, times) in pairs {
            (0..*times).for_each(|_| summary.add(&Judged::of(asked(*one), asked(*other))));
        }
        summary
    }

    #[test]
    fn both_orders_must_agree() {
        use Choice::{First, Second, Tie};
        for (one, other, expected) in [
            (Second, First, Ruling::Better),
            (First, Second, Ruling::Worse),
            (Tie, Tie, Ruling::Tie),
            (First, First, Ruling::Inconsistent),
            (Second, Second, Ruling::Inconsistent),
            (First, Tie, Ruling::Inconsistent),
            (Tie, Second, Ruling::Inconsistent),
        ] {
            assert_eq!(Judged::of(asked(one), asked(other)).ruling, expected, "{one:?} {other:?}");
        }
        let none = Verdict { opinion: Err("no reply".to_owned()), requests: 3, usd: 0.0 };
        let judged = Judged::of(asked(First), none);
        assert_eq!(
            (judged.ruling, judged.requests, judged.not_judged.as_deref()),
            (Ruling::NotJudged, 4, Some("no reply"))
        );
        let mut summary = summary(&[(First, Second, 2), (Tie, Tie, 1), (First, Tie, 1)]);
        summary.add(&judged);
        assert_eq!((summary.judged, summary.worse, summary.agreed(), summary.not_judged), (4, 2, 3, 1));
        assert_eq!((summary.requests, summary.spent_usd), (12, 4.5));
    }

    #[test]
    fn a_few_errors_of_a_judge_are_no_tendency() {
        use Choice::{First, Second, Tie};
        let tendency = |worse, better| {
            summary(&[(First, Second, worse), (Second, First, better), (Tie, Tie, 50)]).tendency()
        };
        assert_eq!((tendency(6, 0), tendency(5, 0), tendency(4, 0)), (Some(Ruling::Worse), None, None));
        assert_eq!((tendency(0, 6), tendency(0, 5), tendency(0, 0)), (Some(Ruling::Better), None, None));
        assert_eq!((tendency(30, 20), tendency(20, 50)), (None, Some(Ruling::Better)));
    }

    #[test]
    fn a_judge_with_a_favourite_position_is_biased_and_one_that_guesses_is_not() {
        use Choice::{First, Second, Tie};
        let biased = summary(&[(First, First, 48), (First, Second, 2)]).bias().unwrap();
        assert!(biased.contains("chose the first answer in both orders in 96 % of 50 threads"), "{biased}");
        assert!(biased.ends_with("its verdicts say little."), "{biased}");
        let slightly = summary(&[(Second, Second, 10), (First, Second, 90)]).bias().unwrap();
        assert!(slightly.contains("the second answer") && slightly.contains("as inconsistent"), "{slightly}");
        for fair in [
            &[(First, Second, 30), (Second, First, 10), (Tie, Tie, 5)][..],
            // A coin.
            &[(First, First, 26), (Second, Second, 24), (First, Second, 25), (Second, First, 25)],
            // Too few threads to tell.
            &[(First, First, 5)],
            &[],
        ] {
            assert_eq!(summary(fair).bias(), None, "{fair:?}");
        }
    }
}
