//! Limits on what a run may show, by which a pipeline fails.

use std::{fmt, str::FromStr};

use super::Summary;

/// A limit on a number of threads, as `worse > 2%` or `not_decided > 5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    measure: Measure,
    most: Most,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Worse,
    Outcome,
    Route,
    Answer,
    NotDecided,
    JudgedWorse,
    JudgedInconsistent,
    NotJudged,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Most {
    Threads(u64),
    /// Of the decided threads, of the judged ones for rulings of a judge, or of all for those that are not decided or not judged.
    Percent(f64),
}

impl Measure {
    const ALL: [Self; 8] = [
        Self::Worse,
        Self::Outcome,
        Self::Route,
        Self::Answer,
        Self::NotDecided,
        Self::JudgedWorse,
        Self::JudgedInconsistent,
        Self::NotJudged,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Outcome => "outcome",
            Self::Route => "route",
            Self::Answer => "answer",
            Self::NotDecided => "not_decided",
            Self::JudgedWorse => "judged_worse",
            Self::JudgedInconsistent => "judged_inconsistent",
            Self::NotJudged => "not_judged",
        }
    }

    /// Returns the number of threads that it counts, and of how many.
    fn of(self, summary: &Summary) -> (u64, u64) {
        let (decided, by_judge) = (summary.decided, summary.judged.unwrap_or_default());
        match self {
            Self::Worse => (summary.worse, decided),
            Self::Outcome => (summary.outcome.other, decided),
            Self::Route => (summary.route.other, decided),
            Self::Answer => (summary.answer.other, decided),
            Self::NotDecided => (summary.not_decided, decided + summary.not_decided),
            Self::JudgedWorse => (by_judge.worse, by_judge.judged),
            Self::JudgedInconsistent => (by_judge.inconsistent, by_judge.judged),
            Self::NotJudged => (by_judge.not_judged, by_judge.judged + by_judge.not_judged),
        }
    }
}

impl Limit {
    /// Returns true if only a judge can decide it.
    pub fn needs_judge(&self) -> bool {
        match self.measure {
            Measure::JudgedWorse | Measure::JudgedInconsistent | Measure::NotJudged => true,
            Measure::Worse | Measure::Outcome | Measure::Route | Measure::Answer | Measure::NotDecided => {
                false
            }
        }
    }

    /// Returns a sentence if a run exceeds the limit.
    pub fn exceeded(&self, summary: &Summary) -> Option<String> {
        let (threads, of) = self.measure.of(summary);
        let is_exceeded = match self.most {
            Most::Threads(most) => most < threads,
            // A share of no thread is unknown, so it exceeds nothing.
            Most::Percent(most) => 0 < of && most < percent(threads, of),
        };
        let share = if 0 < of { format!(" ({:.1}%)", percent(threads, of)) } else { String::new() };
        is_exceeded.then(|| format!("{self}: {threads} of {of}{share}"))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Measure::ALL.map(Measure::name).join(", ");
        let expected = || format!("expected MEASURE > NUMBER or MEASURE > NUMBER%; the measures are {names}");
        let (name, most) = text.split_once('>').ok_or_else(expected)?;
        let measure = Measure::ALL.into_iter().find(|measure| measure.name() == name.trim());
        let most = match most.trim().strip_suffix('%') {
            Some(share) => {
                share.trim().parse().ok().filter(|it| (0.0..=100.0).contains(it)).map(Most::Percent)
            }
            None => most.trim().parse().ok().map(Most::Threads),
        };
        let (Some(measure), Some(most)) = (measure, most) else { return Err(expected()) };
        Ok(Self { measure, most })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.measure.name();
        match self.most {
            Most::Threads(most) => write!(f, "{name} > {most}"),
            Most::Percent(most) => write!(f, "{name} > {most}%"),
        }
    }
}

pub(super) fn percent(part: u64, of: u64) -> f64 {
    100.0 * share(part, of)
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of as f64
}

/// Returns the interval, in percent, in which the true share lies with a probability of 95 % (Wilson). `None` for no thread.
pub fn interval(part: u64, of: u64) -> Option<[f64; 2]> {
    const Z: f64 = 1.96;
    if of == 0 {
        return None;
    }
    let (share, n) = (share(part, of), of as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 100.0 / (1.0 + Z * Z / n);
    Some([(middle - half).max(0.0) * scale, (middle + half).min(1.0 + Z * Z / n) * scale])
}

/// Returns true if the more frequent one of two equal chances came up too often for chance, at 95 %: in an exact two-sided sign test,
/// a result at least as uneven has a probability of at most 5 %.
pub(super) fn beyond_chance(times: u64, of: u64) -> bool {
    // Logarithm of the probability of `count` times: C(of, count) / 2^of.
    let mut log = of as f64 * 0.5_f64.ln();
    let mut tail = 0.0;
    for count in (times..=of).rev() {
        tail += log.exp();
        log += (count as f64).ln() - ((of - count + 1) as f64).ln();
    }
    2.0 * tail <= 0.05
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::JudgedSummary;

    #[test]
    fn a_limit_is_exceeded_above_it() {
        let judged = JudgedSummary { judged: 20, worse: 1, not_judged: 5, ..JudgedSummary::default() };
        let judged = Some(judged);
        let summary = Summary { decided: 50, worse: 2, not_decided: 3, judged, ..Summary::default() };
        let exceeded = |text: &str| text.parse::<Limit>().unwrap().exceeded(&summary);
        assert_eq!(exceeded("worse > 4%"), None);
        assert_eq!(exceeded("worse>3.9%").unwrap(), "worse > 3.9%: 2 of 50 (4.0%)");
        assert_eq!(exceeded("worse > 2"), None);
        assert_eq!(exceeded("not_decided > 2").unwrap(), "not_decided > 2: 3 of 53 (5.7%)");
        assert_eq!(exceeded("judged_worse > 4%").unwrap(), "judged_worse > 4%: 1 of 20 (5.0%)");
        assert_eq!(exceeded("judged_inconsistent > 0%"), None);
        assert_eq!(exceeded("not_judged > 4").unwrap(), "not_judged > 4: 5 of 25 (20.0%)");
        assert_eq!("judged_worse > 0".parse::<Limit>().unwrap().exceeded(&Summary::default()), None);
        assert_eq!("worse > 0%".parse::<Limit>().unwrap().exceeded(&Summary::default()), None);
        for wrong in ["worse", "worse > x", "worse > 101%", "worst > 2%", "worse < 2%", "worse > -1"] {
            assert!(wrong.parse::<Limit>().unwrap_err().contains("not_decided"), "{wrong}");
        }
    }

    #[test]
    fn a_few_threads_of_one_kind_are_chance() {
        for (times, of, expected) in [
            (0, 0, false),
            (4, 4, false),
            (5, 5, false),
            (6, 6, true),
            (7, 8, false),
            (8, 9, true),
            (59, 100, false),
            (61, 100, true),
            (50_000, 100_000, false),
            (50_500, 100_000, true),
            (100_000, 100_000, true),
        ] {
            assert_eq!(beyond_chance(times, of), expected, "{times} of {of}");
        }
    }

    #[test]
    fn an_interval_holds_the_share_and_narrows_with_more_threads() {
        assert_eq!(interval(0, 0), None);
        let [low, high] = interval(0, 50).unwrap();
        assert!(low == 0.0 && (7.0..7.2).contains(&high), "{low} {high}");
        let [low, high] = interval(5, 100).unwrap();
        assert!((2.1..2.2).contains(&low) && (11.1..11.2).contains(&high), "{low} {high}");
    }
}
