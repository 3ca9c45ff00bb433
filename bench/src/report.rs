//! What is printed: a line a figure, with its floor, its ratio and its target from the same run.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::stats::{Spread, ratios};

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// Its name, which stays.
    pub(crate) name: String,
    /// In what it is measured.
    unit: &'static str,
    /// What was measured.
    value: Spread,
    /// What the same takes without the engine.
    floor: Option<Floor>,
    /// Value over floor, round by round.
    ratio: Option<Spread>,
    /// What it should be.
    target: Option<Judged>,
    /// What is counted, where the name does not say it.
    note: String,
    /// What the machine did meanwhile.
    pub(crate) machine: Option<Conditions>,
}

/// What the same takes without the engine.
#[derive(Clone, Debug, Serialize)]
struct Floor {
    what: &'static str,
    value: Spread,
}

/// What the machine did while a figure was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Conditions {
    /// The median time to keep 8 KiB that overwrite others, a look a round.
    pub(crate) fdatasync_micros: Spread,
    /// The share of all processors that others used.
    pub(crate) foreign_cpu: Spread,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Target {
    /// The number in the list of targets.
    pub(crate) id: &'static str,
    /// Of what.
    pub(crate) of: Of,
    /// Which way.
    pub(crate) bound: Bound,
}

/// Of what a target speaks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Of {
    /// The figure itself.
    Value,
    /// The figure over its floor.
    Ratio,
}

/// Which way a target goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A target, and whether it is met.
#[derive(Clone, Copy, Debug, Serialize)]
struct Judged {
    #[serde(flatten)]
    target: Target,
    verdict: Verdict,
}

/// Whether a target is met by the median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Below,
}

impl Line {
    /// A figure without a floor.
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, rounds: &[f64]) -> Self {
        let value = Spread::of(rounds);
        Self {
            name: name.into(),
            unit,
            value,
            floor: None,
            ratio: None,
            target: None,
            note: String::new(),
            machine: None,
        }
    }

    /// Over this floor, measured in the same rounds.
    pub(crate) fn over(mut self, what: &'static str, rounds: &[f64], floor: &[f64]) -> Self {
        self.floor = Some(Floor { what, value: Spread::of(floor) });
        self.ratio = Some(Spread::of(&ratios(rounds, floor)));
        self
    }

    /// With this target.
    pub(crate) fn target(mut self, target: Target) -> Self {
        let median = match target.of {
            Of::Value => self.value.median,
            Of::Ratio => self.ratio.map_or(f64::NAN, |it| it.median),
        };
        self.target = Some(Judged { target, verdict: target.bound.judge(median) });
        self
    }

    /// With a word on what is counted.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

impl Bound {
    /// What was not measured is not met.
    fn judge(self, value: f64) -> Verdict {
        let met = match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        };
        if met { Verdict::Ok } else { Verdict::Below }
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// `short` or `full`.
    pub(crate) effort: &'static str,
    /// How many processors there are.
    pub(crate) processors: usize,
    /// The figures, in the order in which they were measured.
    pub(crate) figures: Vec<Line>,
}

impl Report {
    /// For a program.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For a person: the table, and what its lines count.
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let head =
            ["figure", "median", "(low … high)", "unit", "floor", "ratio", "(low … high)", "target", ""];
        table.set_header(head.into_iter().chain(["fdatasync", "others' CPU"]));
        for line in &self.figures {
            table.add_row(line.cells());
        }
        for column in [1, 4, 5, 9, 10] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let notes = self.figures.iter().filter_map(Line::remarks).map(|it| format!("\n{it}"));
        format!("{table}\n{}\n", notes.collect::<String>())
    }
}

impl Line {
    fn cells(&self) -> [String; 11] {
        let of = |it: Option<Spread>| it.map_or(String::new(), |it| number(it.median));
        let target = self.target.map(|it| it.target.words()).unwrap_or_default();
        let verdict = match self.target.map(|it| it.verdict) {
            Some(Verdict::Ok) => "ok",
            Some(Verdict::Below) => "below",
            None => "",
        };
        let disk =
            self.machine.map_or(String::new(), |it| format!("{} µs", number(it.fdatasync_micros.median)));
        let others =
            self.machine.map_or(String::new(), |it| format!("{:.0} %", it.foreign_cpu.median * 100.0));
        [
            self.name.clone(),
            number(self.value.median),
            range(&self.value),
            self.unit.to_owned(),
            of(self.floor.as_ref().map(|it| it.value)),
            of(self.ratio),
            self.ratio.as_ref().map(range).unwrap_or_default(),
            target,
            verdict.to_owned(),
            disk,
            others,
        ]
    }

    /// What the table has no room for.
    fn remarks(&self) -> Option<String> {
        let floor = self.floor.as_ref().map(|it| format!("floor: {}", it.what));
        let parts: Vec<String> =
            floor.into_iter().chain(Some(self.note.clone())).filter(|it| !it.is_empty()).collect();
        (!parts.is_empty()).then(|| format!("{}: {}", self.name, parts.join("; ")))
    }

    /// In one line, while the others are still being measured.
    pub(crate) fn shown(&self) -> String {
        self.cells().join("  ")
    }
}

impl Target {
    fn words(self) -> String {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => ("≥", bound),
            Bound::AtMost(bound) => ("≤", bound),
        };
        let of = match self.of {
            Of::Value => "",
            Of::Ratio => "ratio ",
        };
        format!("{} {of}{sign} {}", self.id, number(bound))
    }
}

fn range(spread: &Spread) -> String {
    match spread.rounds {
        0 | 1 => String::new(),
        _ => format!("({} … {})", number(spread.low), number(spread.high)),
    }
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "–".to_owned(),
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rounds: &[f64], floor: &[f64], bound: Bound) -> Line {
        let target = Target { id: "T", of: Of::Ratio, bound };
        Line::new("a", "steps/s", rounds).over("bare", rounds, floor).target(target)
    }

    #[test]
    fn a_target_is_judged_by_the_median_of_the_ratios() {
        // Round by round 0.5, 2, 0.5: the ratio of the medians would be 1.
        let below = line(&[1.0, 2.0, 3.0], &[2.0, 1.0, 6.0], Bound::AtLeast(0.6));
        assert_eq!(below.target.unwrap().verdict, Verdict::Below);
        let met = line(&[1.0, 2.0, 3.0], &[2.0, 1.0, 6.0], Bound::AtMost(0.6));
        assert_eq!(met.target.unwrap().verdict, Verdict::Ok);
        assert_eq!(line(&[], &[], Bound::AtMost(1.0)).target.unwrap().verdict, Verdict::Below);
    }

    #[test]
    fn a_line_says_all_that_is_known() {
        let shown = line(&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0], Bound::AtLeast(0.9)).shown();
        for part in ["a", "2.00", "(1.00 … 3.00)", "steps/s", "(0.50 … 1.50)", "T ratio ≥ 0.90", "ok"] {
            assert!(shown.contains(part), "{part:?} is not in {shown:?}");
        }
    }
}
