//! The report: a line per figure, with its lower bound, its ratio and its target from the same run.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::stats::{Spread, ratios};

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// Stable name of the figure.
    pub(crate) name: String,
    /// Unit of the value.
    unit: &'static str,
    /// The measured values.
    value: Spread,
    /// The same work without the engine.
    floor: Option<Floor>,
    /// Value divided by floor, round by round.
    ratio: Option<Spread>,
    /// The target, and whether it was met.
    target: Option<Judged>,
    /// Explains the counted quantity where the name does not.
    note: String,
    /// State of the machine during the measurement.
    pub(crate) machine: Option<Conditions>,
}

/// The same work without the engine.
#[derive(Clone, Debug, Serialize)]
struct Floor {
    what: &'static str,
    value: Spread,
}

/// State of the machine while a figure was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Conditions {
    /// Median time to overwrite 8 KiB durably, measured once per round.
    pub(crate) fdatasync_micros: Spread,
    /// Share of all processors used by others.
    pub(crate) foreign_cpu: Spread,
}

/// The target of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Target {
    /// Number in the list of targets.
    pub(crate) id: &'static str,
    /// The quantity that the target limits.
    pub(crate) of: Of,
    /// Direction and limit of the target.
    pub(crate) bound: Bound,
}

/// The quantity that a target limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Of {
    /// The figure itself.
    Value,
    /// The figure divided by its floor.
    Ratio,
}

/// Direction of a target.
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

/// Result of comparing the median with a target.
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

    /// Adds a floor, measured in the same rounds.
    pub(crate) fn over(mut self, what: &'static str, rounds: &[f64], floor: &[f64]) -> Self {
        self.floor = Some(Floor { what, value: Spread::of(floor) });
        self.ratio = Some(Spread::of(&ratios(rounds, floor)));
        self
    }

    /// Adds a target and judges it.
    pub(crate) fn target(mut self, target: Target) -> Self {
        let median = match target.of {
            Of::Value => self.value.median,
            Of::Ratio => self.ratio.map_or(f64::NAN, |spread| spread.median),
        };
        self.target = Some(Judged { target, verdict: target.bound.judge(median) });
        self
    }

    /// Adds a note on the counted quantity.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

impl Bound {
    /// A target without a measurement is not met.
    fn judge(self, value: f64) -> Verdict {
        let met = match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        };
        if met { Verdict::Ok } else { Verdict::Below }
    }
}

/// Report of a whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Either `short` or `full`.
    pub(crate) effort: &'static str,
    /// Number of processors.
    pub(crate) processors: usize,
    /// Lines in the order of measurement.
    pub(crate) figures: Vec<Line>,
}

impl Report {
    /// The report as JSON.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The report as a table with notes.
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
        let notes = self.figures.iter().filter_map(Line::remarks).map(|remark| format!("\n{remark}"));
        format!("{table}\n{}\n", notes.collect::<String>())
    }
}

impl Line {
    fn cells(&self) -> [String; 11] {
        let of = |spread: Option<Spread>| spread.map_or(String::new(), |spread| number(spread.median));
        let target = self.target.map(|target| target.target.words()).unwrap_or_default();
        let verdict = match self.target.map(|target| target.verdict) {
            Some(Verdict::Ok) => "ok",
            Some(Verdict::Below) => "below",
            None => "",
        };
        let disk = self
            .machine
            .map_or(String::new(), |machine| format!("{} µs", number(machine.fdatasync_micros.median)));
        let others = self
            .machine
            .map_or(String::new(), |machine| format!("{:.0} %", machine.foreign_cpu.median * 100.0));
        [
            self.name.clone(),
            number(self.value.median),
            range(&self.value),
            self.unit.to_owned(),
            of(self.floor.as_ref().map(|floor| floor.value)),
            of(self.ratio),
            self.ratio.as_ref().map(range).unwrap_or_default(),
            target,
            verdict.to_owned(),
            disk,
            others,
        ]
    }

    /// Remarks that do not fit into the table.
    fn remarks(&self) -> Option<String> {
        let floor = self.floor.as_ref().map(|floor| format!("floor: {}", floor.what));
        let parts: Vec<String> =
            floor.into_iter().chain(Some(self.note.clone())).filter(|floor| !floor.is_empty()).collect();
        (!parts.is_empty()).then(|| format!("{}: {}", self.name, parts.join("; ")))
    }

    /// One line, shown while other figures are still being measured.
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

/// Formats a number with three significant digits.
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
        // Ratios of the rounds are 0.5, 2 and 0.5; the ratio of the medians would be 1.
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
