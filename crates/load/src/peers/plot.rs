//! Plots as SVG, drawn by hand: bars, and lines over a scale of powers.

use std::fmt::Write as _;

const WIDE: f64 = 760.0;
const HIGH: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart by those who see no red or no green, too.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// One line of a plot.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines. `x` and `y` say what is drawn; a scale that spans powers is drawn by its powers.
pub(crate) fn lines(title: &str, x: &str, y: &str, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let across = Scale::over(points().map(|point| point.0), LEFT, WIDE - RIGHT);
    let up = Scale::over(points().map(|point| point.1), HIGH - BOTTOM, TOP);
    let mut out = frame(title, x, y);
    for (at, words) in across.ticks() {
        let low = HIGH - BOTTOM;
        let _ = write!(out, r##"<path d="M{at:.1} {TOP}V{low}" stroke="#ddd"/>"##);
        let _ = write!(out, r#"<text x="{at:.1}" y="{}" text-anchor="middle">{words}</text>"#, low + 16.0);
    }
    for (at, words) in up.ticks() {
        let _ = write!(out, r##"<path d="M{LEFT} {at:.1}H{}" stroke="#ddd"/>"##, WIDE - RIGHT);
        let _ =
            write!(out, r#"<text x="{}" y="{:.1}" text-anchor="end">{words}</text>"#, LEFT - 6.0, at + 4.0);
    }
    for (number, series) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let places: Vec<(f64, f64)> =
            series.points.iter().map(|(x, y)| (across.place(*x), up.place(*y))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            path.join(" ")
        );
        for (x, y) in &places {
            let _ = write!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#);
        }
        let row = TOP + 10.0 + 18.0 * f64::from(u32::try_from(number).unwrap_or(0));
        let from = WIDE - RIGHT + 12.0;
        let _ = write!(out, r#"<path d="M{from} {row}h18" stroke="{colour}" stroke-width="3"/>"#);
        let _ =
            write!(out, r#"<text x="{}" y="{}">{}</text>"#, from + 24.0, row + 4.0, escaped(&series.name));
    }
    out.push_str("</svg>\n");
    out
}

/// Bars beside their names, the longest as wide as the plot.
pub(crate) fn bars(title: &str, unit: &str, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let mut out = frame(title, unit, "");
    let room = HIGH - TOP - BOTTOM;
    let each = room / f64::from(u32::try_from(bars.len().max(1)).unwrap_or(1));
    for (number, (name, value)) in bars.iter().enumerate() {
        let y = TOP + each * f64::from(u32::try_from(number).unwrap_or(0));
        let (from, wide) = (230.0, (WIDE - 230.0 - 90.0) * value / most);
        let colour = COLOURS[usize::from(!name.starts_with("tenure"))];
        let middle = y + each / 2.0 + 3.0;
        let _ = write!(
            out,
            r#"<text x="{}" y="{middle:.1}" text-anchor="end">{}</text>"#,
            from - 6.0,
            escaped(name)
        );
        let _ = write!(
            out,
            r#"<rect x="{from}" y="{:.1}" width="{wide:.1}" height="{:.1}" fill="{colour}"/>"#,
            y + each * 0.15,
            each * 0.7
        );
        let _ = write!(out, r#"<text x="{:.1}" y="{middle:.1}">{}</text>"#, from + wide + 6.0, short(*value));
    }
    out.push_str("</svg>\n");
    out
}

fn frame(title: &str, x: &str, y: &str) -> String {
    let (middle, low) = ((LEFT + WIDE - RIGHT) / 2.0, HIGH - 12.0);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" font-family="sans-serif" font-size="12"><rect width="{WIDE}" height="{HIGH}" fill="#fff"/><text x="{LEFT}" y="22" font-size="15">{}</text><text x="{middle}" y="{low}" text-anchor="middle">{}</text><text x="{LEFT}" y="{}" fill="#555">{}</text>"##,
        escaped(title),
        escaped(x),
        TOP - 4.0,
        escaped(y)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// From values to places, by their powers.
struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut least, mut most) = (f64::MAX, f64::MIN_POSITIVE);
        for value in values.filter(|value| *value > 0.0) {
            (least, most) = (least.min(value), most.max(value));
        }
        // A single value has a scale, too.
        if least >= most {
            (least, most) = (most / 2.0, most * 2.0);
        }
        Self { least, most, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.max(self.least) / self.least).ln() / (self.most / self.least).ln();
        self.from + (self.to - self.from) * share
    }

    /// The powers of ten within it, and its ends.
    fn ticks(&self) -> Vec<(f64, String)> {
        let mut values = vec![self.least, self.most];
        let mut power = 10_f64.powf(self.least.log10().ceil());
        while power < self.most {
            if power > self.least * 1.3 && power < self.most / 1.3 {
                values.push(power);
            }
            power *= 10.0;
        }
        values.into_iter().map(|value| (self.place(value), short(value))).collect()
    }
}

/// As short as it can be read.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 9_950_000.0 => format!("{:.0}M", value / 1e6),
        value if value >= 999_500.0 => format!("{:.1}M", value / 1e6),
        value if value >= 9_950.0 => format!("{:.0}k", value / 1e3),
        value if value >= 999.5 => format!("{:.1}k", value / 1e3),
        value if value >= 9.95 => format!("{value:.0}"),
        value if value >= 0.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_whole_and_stays_within_its_frame() {
        let series = [
            Series { name: "a<b".to_owned(), points: vec![(1.0, 10.0), (256.0, 20_000.0)] },
            Series { name: "one".to_owned(), points: vec![(16.0, 300.0)] },
        ];
        let plot = lines("scaling", "connections", "cycles/s", &series);
        assert!(plot.starts_with("<svg") && plot.ends_with("</svg>\n"), "{plot}");
        assert!(plot.contains("a&lt;b") && !plot.contains("NaN"), "{plot}");
        assert!(!bars("b", "u", &[("x".to_owned(), 0.0)]).contains("NaN"));
    }

    #[test]
    fn figures_are_short() {
        for (value, words) in [(0.5, "0.50"), (1.5, "1.5"), (12.3, "12"), (1_234.0, "1.2k"), (1e6, "1.0M")] {
            assert_eq!(short(value), words);
        }
    }
}
