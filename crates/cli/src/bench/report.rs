//! How results are shown: a table for people, JSON for programs.

use std::borrow::Cow;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
pub(crate) use tenure_load::median;

/// One figure and the target that it is held against.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: Cow<'static, str>,
    /// The value.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What it should reach, in words.
    pub(crate) target: Option<String>,
    /// Whether it did.
    pub(crate) reached: Option<bool>,
}

impl Figure {
    pub(crate) fn plain(name: impl Into<Cow<'static, str>>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, target: None, reached: None }
    }

    pub(crate) fn at_least(
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        target: f64,
    ) -> Self {
        let words = format!("at least {}", number(target));
        Self { name: name.into(), value, unit, target: Some(words), reached: Some(value >= target) }
    }

    pub(crate) fn at_most(
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        target: f64,
    ) -> Self {
        let words = format!("at most {}", number(target));
        Self { name: name.into(), value, unit, target: Some(words), reached: Some(value <= target) }
    }
}

/// Prints the figures.
pub(crate) fn print(figures: &[Figure], json: bool) -> super::Result {
    if json {
        println!("{}", serde_json::to_string_pretty(figures)?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["figure", "value", "unit", "target", ""]);
    for figure in figures {
        let verdict = figure.reached.map_or("", |reached| if reached { "reached" } else { "MISSED" });
        table.add_row([
            &*figure.name,
            &number(figure.value),
            figure.unit,
            figure.target.as_deref().unwrap_or(""),
            verdict,
        ]);
    }
    println!("{table}");
    Ok(())
}

/// With thousands apart, and decimals only where they say something.
fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
