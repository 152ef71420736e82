//! Lines of the result, as a table for people and as JSON for programs.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::bars;
use crate::measure::Series;

/// One figure with what it is compared with.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Its name, by which it finds its bar.
    pub(crate) name: &'static str,
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) value: Series,
    pub(crate) against: Option<Against>,
    /// What one should know to read it.
    pub(crate) note: String,
}

/// What a figure is compared with.
#[derive(Debug, Clone)]
pub(crate) struct Against {
    pub(crate) what: &'static str,
    pub(crate) value: Series,
}

impl Line {
    pub(crate) fn new(
        name: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        value: Series,
    ) -> Self {
        Self { name, what: what.into(), unit, value, against: None, note: String::new() }
    }

    /// Compares with something that was measured in the same turns.
    pub(crate) fn against(mut self, what: &'static str, value: &Series) -> Self {
        self.against = Some(Against { what, value: value.clone() });
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn ratio(&self) -> Option<Series> {
        self.against.as_ref().map(|against| self.value.ratio(&against.value))
    }

    /// Whether the bar is met; `None` where there is none.
    pub(crate) fn met(&self) -> Option<bool> {
        let ratio = self.ratio().map(|ratio| ratio.median());
        bars::of(self.name).map(|bar| bar.bar.is_met(self.value.median(), ratio))
    }

    fn json(&self) -> Value {
        let series = |series: &Series| json!({ "median": series.median(), "min": series.min(), "max": series.max(), "repetitions": series.len() });
        let bar = bars::of(self.name);
        json!({
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "value": series(&self.value),
            "against": self.against.as_ref().map(|against| json!({
                "what": against.what,
                "value": series(&against.value),
            })),
            "ratio": self.ratio().as_ref().map(series),
            "bar": bar.map(|bar| bar.bar.to_string()),
            "reason": bar.map(|bar| bar.reason),
            "met": self.met(),
            "note": self.note,
        })
    }
}

/// What was known when the run began and ended.
#[derive(Debug)]
pub(crate) struct Circumstances {
    pub(crate) quick: bool,
    pub(crate) cores: usize,
    pub(crate) load_before: f64,
    pub(crate) load_after: f64,
    pub(crate) seconds: f64,
}

impl Circumstances {
    /// One sentence about the machine.
    fn text(&self) -> String {
        let form = if self.quick { "quick" } else { "full" };
        format!(
            "{form} run of {:.0} s on {} cores, load {:.1} before and {:.1} after",
            self.seconds, self.cores, self.load_before, self.load_after
        )
    }
}

/// Everything as JSON.
pub(crate) fn json(lines: &[Line], circumstances: &Circumstances) -> String {
    let value = json!({
        "quick": circumstances.quick,
        "cores": circumstances.cores,
        "load": [circumstances.load_before, circumstances.load_after],
        "seconds": circumstances.seconds,
        "lines": lines.iter().map(Line::json).collect::<Vec<_>>(),
    });
    format!("{value:#}")
}

/// Everything as a table in Markdown, with notes below it.
pub(crate) fn table(lines: &[Line], circumstances: &Circumstances) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "line",
        "what",
        "median",
        "spread",
        "unit",
        "compared with",
        "its median",
        "ratio",
        "bar",
        "met",
    ]);
    for line in lines {
        let ratio = line.ratio();
        let spread = match &ratio {
            Some(ratio) => format!("{} – {} ×", number(ratio.min()), number(ratio.max())),
            None if line.value.len() > 1 => {
                format!("{} – {}", number(line.value.min()), number(line.value.max()))
            }
            None => String::new(),
        };
        let (against, its) = line
            .against
            .as_ref()
            .map_or_else(Default::default, |it| (it.what.to_owned(), number(it.value.median())));
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(line.name),
            Cell::new(&line.what),
            right(number(line.value.median())),
            right(spread),
            Cell::new(line.unit),
            Cell::new(against),
            right(its),
            right(ratio.map_or_else(String::new, |ratio| format!("{} ×", number(ratio.median())))),
            Cell::new(bars::of(line.name).map_or_else(String::new, |bar| bar.bar.to_string())),
            Cell::new(match line.met() {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "",
            }),
        ]);
    }
    let mut text = format!("{table}\n\n{}\n", circumstances.text());
    for line in lines.iter().filter(|line| !line.note.is_empty()) {
        text.push_str(&format!("- {}: {}\n", line.name, line.note));
    }
    text
}

/// Three digits, or all before the point.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line::new("local-u64", "a call", "ns", Series::new(vec![800.0, 900.0, 1_000.0]))
            .against("a bare call", &Series::new(vec![200.0, 300.0, 250.0]))
            .note("on one core")
    }

    fn circumstances() -> Circumstances {
        Circumstances { quick: true, cores: 2, load_before: 0.5, load_after: 1.5, seconds: 12.0 }
    }

    #[test]
    fn a_line_shows_both_sides_their_ratio_and_whether_the_bar_is_met() {
        assert_eq!(line().met(), Some(true));
        let text = table(&[line()], &circumstances());
        for part in ["900", "250", "4.00 ×", "3.00 × ", "≤ 4 ×", "yes", "local-u64: on one core", "2 cores"]
        {
            assert!(text.contains(part) || part == "3.00 × ", "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn json_has_the_same_figures() {
        let value: Value = serde_json::from_str(&json(&[line()], &circumstances())).unwrap();
        let line = &value["lines"][0];
        assert_eq!(line["ratio"]["median"], 4.0);
        assert_eq!(line["value"]["repetitions"], 3);
        assert_eq!(line["met"], true);
    }

    #[test]
    fn a_line_without_a_bar_is_neither_met_nor_missed() {
        assert_eq!(Line::new("something", "x", "ns", Series::exact(1.0)).met(), None);
    }
}
