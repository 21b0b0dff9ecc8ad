//! Charts as SVG, drawn by hand: logarithmic axes, no script, no font of their own.

use std::fmt::Write as _;

use crate::figures::{Figures, Row, Unit};

const BLUE: &str = "#1f6feb";
const ORANGE: &str = "#d9730d";
const SHADES: [&str; 4] = ["#9ecbff", "#58a6ff", "#1f6feb", "#0b3d91"];
const GREY: &str = "#8b949e";

/// File names and contents.
pub fn all(figures: &[Figures]) -> Vec<(&'static str, String)> {
    let generated: Vec<&Figures> = figures.iter().filter(|figures| figures.is_generated()).collect();
    vec![("ratio.svg", ratio(&generated)), ("growth.svg", growth(&generated)), ("matches.svg", matches(&generated))]
}

/// Maps a logarithmic scale onto pixels.
struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogScale {
    /// Whole decades around all values.
    fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value.log10().floor());
            high = high.max(value.log10().ceil());
        }
        if low >= high {
            (low, high) = if low.is_finite() { (low, low + 1.0) } else { (0.0, 1.0) };
        }
        Self { low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-9).log10() - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|exponent| 10f64.powi(exponent))
    }
}

struct Svg(String);

impl Svg {
    fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{title}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
        ));
        svg.text(16.0, 24.0, "start", "#24292f", &format!("<tspan font-size=\"16\">{title}</tspan>"));
        svg
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        );
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    fn dot(&mut self, x: f64, y: f64, radius: f64, colour: &str) {
        let _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>");
    }

    /// A line through points, with dots on them.
    fn curve(&mut self, points: &[(f64, f64)], colour: &str) {
        for pair in points.windows(2) {
            self.line(pair[0], pair[1], colour, 2.0);
        }
        for &(x, y) in points {
            self.dot(x, y, 3.0, colour);
        }
    }

    /// Coloured squares with words, from left to right.
    fn legend(&mut self, x: f64, y: f64, entries: &[(&str, String)]) {
        let mut x = x;
        for (colour, label) in entries {
            self.rect(x, y - 10.0, 12.0, 12.0, colour);
            self.text(x + 18.0, y, "start", "#24292f", label);
            x += 36.0 + 7.0 * label.chars().count() as f64;
        }
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn number(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e3 => format!("{} k", v / 1e3),
        v if v >= 1.0 => format!("{v}"),
        v => format!("{}", (v * 1e6).round() / 1e6),
    }
}

fn shade(i: usize, of: usize) -> &'static str {
    SHADES[(i + SHADES.len().saturating_sub(of)).min(SHADES.len() - 1)]
}

/// Rows that stand for a class: no list of keys, no variant of another row.
fn is_class(row: &Row) -> bool {
    let variant = ["200 keys", "1 % dead", "in raw fdatasyncs", "first search: "];
    row.fts5.is_some() && !variant.iter().any(|part| row.name.contains(part))
}

/// A bar a size, a group of bars a class.
fn ratio(generated: &[&Figures]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in generated.iter().flat_map(|figures| &figures.rows).filter(|row| is_class(row)) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let (left, width, bar) = (300.0, 940.0, 7.0);
    let group = bar * generated.len() as f64 + 8.0;
    let (top, height) = (76.0, 76.0 + names.len() as f64 * group + 40.0);
    let mut svg = Svg::new(width, height, "How many times better than FTS5 (logarithmic; left of 1: worse)");
    let sizes: Vec<(&str, String)> = (generated.iter().enumerate())
        .map(|(i, figures)| (shade(i, generated.len()), format!("{} messages", figures.size_name())))
        .collect();
    svg.legend(left, 50.0, &sizes);
    let ratios = generated.iter().flat_map(|figures| &figures.rows).filter(|row| is_class(row)).filter_map(Row::ratio);
    let scale = LogScale::around(ratios.chain([1.0]), left, width - 30.0);
    for decade in scale.decades() {
        let x = scale.at(decade);
        svg.line((x, top - 4.0), (x, height - 34.0), "#d0d7de", 1.0);
        svg.text(x, height - 18.0, "middle", GREY, &format!("{}×", number(decade)));
    }
    let one = scale.at(1.0);
    for (n, name) in names.iter().enumerate() {
        let y = top + n as f64 * group;
        svg.text(left - 8.0, y + group / 2.0, "end", "#24292f", name);
        for (i, figures) in generated.iter().enumerate() {
            let Some(ratio) = figures.row(name).and_then(Row::ratio) else { continue };
            let (x, y) = (scale.at(ratio), y + i as f64 * bar);
            let colour = if ratio < 1.0 { ORANGE } else { shade(i, generated.len()) };
            svg.rect(x.min(one), y, (x - one).abs().max(1.0), bar - 1.0, colour);
        }
    }
    svg.line((one, top - 4.0), (one, height - 34.0), "#24292f", 1.5);
    svg.finish()
}

/// A panel a class: milliseconds against messages, ours and FTS5's.
fn growth(generated: &[&Figures]) -> String {
    let Some(last) = generated.last() else { return Svg::new(400.0, 60.0, "Nothing measured").finish() };
    let is_timed = |row: &&Row| is_class(row) && row.unit == Unit::Milliseconds;
    let classes: Vec<&str> = last.rows.iter().filter(is_timed).map(|row| row.name.as_str()).collect();
    let (columns, panel_width, panel_height) = (4, 300.0, 150.0);
    let rows = classes.len().div_ceil(columns);
    let (width, height) = (columns as f64 * panel_width + 20.0, 70.0 + rows as f64 * panel_height);
    let mut svg = Svg::new(width, height, "Milliseconds against messages (both logarithmic)");
    svg.legend(16.0, 50.0, &[(BLUE, "ours".to_owned()), (ORANGE, "FTS5".to_owned())]);
    for (n, class) in classes.iter().enumerate() {
        let x = 10.0 + (n % columns) as f64 * panel_width;
        let y = 64.0 + (n / columns) as f64 * panel_height;
        panel(&mut svg, generated, class, (x, y));
    }
    svg.finish()
}

fn panel(svg: &mut Svg, generated: &[&Figures], class: &str, (left, top): (f64, f64)) {
    let rows: Vec<(f64, &Row)> =
        (generated.iter()).filter_map(|figures| figures.row(class).map(|row| (figures.messages as f64, row))).collect();
    let values = rows.iter().flat_map(|(_, row)| [Some(row.ours), row.fts5]).flatten();
    let across = LogScale::around(generated.iter().map(|figures| figures.messages as f64), left + 52.0, left + 270.0);
    let up = LogScale::around(values, top + 118.0, top + 26.0);
    svg.text(left + 4.0, top + 14.0, "start", "#24292f", class);
    for decade in up.decades() {
        let y = up.at(decade);
        svg.line((left + 52.0, y), (left + 270.0, y), "#d0d7de", 1.0);
        svg.text(left + 48.0, y + 4.0, "end", GREY, &number(decade));
    }
    for decade in across.decades() {
        svg.text(across.at(decade), top + 134.0, "middle", GREY, &number(decade));
    }
    let curve = |value: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
        rows.iter().filter_map(|(size, row)| value(row).map(|ms| (across.at(*size), up.at(ms)))).collect()
    };
    svg.curve(&curve(&|row| row.fts5), ORANGE);
    svg.curve(&curve(&|row| Some(row.ours)), BLUE);
}

/// Each search of each size: milliseconds against the messages that match.
fn matches(generated: &[&Figures]) -> String {
    let (width, height, left) = (760.0, 460.0, 70.0);
    let mut svg = Svg::new(width, height, "Milliseconds of a search against messages that match (both logarithmic)");
    let mut legend: Vec<(&str, String)> = (generated.iter().enumerate())
        .map(|(i, figures)| (shade(i, generated.len()), format!("ours, {}", figures.size_name())))
        .collect();
    legend.push((ORANGE, "FTS5, all".to_owned()));
    svg.legend(left, 50.0, &legend);
    let points = |figures: &Figures| -> Vec<(f64, f64, Option<f64>)> {
        let rows = figures.rows.iter().filter(|row| row.group == "search");
        rows.filter_map(|row| row.matches.map(|n| (n.max(1) as f64, row.ours, row.fts5))).collect()
    };
    let all: Vec<_> = generated.iter().flat_map(|figures| points(figures)).collect();
    let across = LogScale::around(all.iter().map(|point| point.0), left, width - 30.0);
    let up = LogScale::around(all.iter().flat_map(|point| [Some(point.1), point.2]).flatten(), height - 50.0, 70.0);
    for decade in up.decades() {
        let y = up.at(decade);
        svg.line((left, y), (width - 30.0, y), "#d0d7de", 1.0);
        svg.text(left - 6.0, y + 4.0, "end", GREY, &format!("{} ms", number(decade)));
    }
    for decade in across.decades() {
        svg.text(across.at(decade), height - 30.0, "middle", GREY, &number(decade));
    }
    svg.text(width / 2.0, height - 10.0, "middle", GREY, "messages that match (0 stands at 1)");
    for (matches, _, fts5) in &all {
        fts5.iter().for_each(|ms| svg.dot(across.at(*matches), up.at(*ms), 3.5, ORANGE));
    }
    for (i, figures) in generated.iter().enumerate() {
        for (matches, ours, _) in points(figures) {
            svg.dot(across.at(matches), up.at(ours), 4.5, shade(i, generated.len()));
        }
    }
    svg.finish()
}
