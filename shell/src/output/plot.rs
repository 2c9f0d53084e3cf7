//! Curves as text for a terminal and as SVG for a page.
//!
//! Sizes or times go to the right, shares from 0 to 1 upwards, on the part of it that the curves
//! use.
//! Invariant: equal curves give equal text; a name is never taken for markup.

use std::fmt::Write;

/// Columns and rows of the text.
const COLUMNS: usize = 64;
const ROWS: usize = 16;
/// Marks of curves in the text; a further curve starts over.
const MARKS: [char; 8] = ['o', 'x', '+', '*', '#', '@', '%', '&'];
/// Picture and the place of its frame.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLORS: [&str; 8] =
    ["#0b6fb8", "#d9541a", "#2e8b3d", "#8a3fb0", "#b8860b", "#c2185b", "#00838f", "#555555"];

/// A named curve: sizes or times in rising order, and a share for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// How what goes to the right is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// For times.
    Linear,
    /// For sizes, all above 0.
    Logarithmic,
}

/// Curves in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    /// What the sizes or times count.
    pub unit: String,
    pub scale: Scale,
    pub curves: Vec<Curve>,
    /// Events between the curves' first and last points, each with its name. The picture alone
    /// shows them.
    pub events: Vec<(f64, String)>,
}

/// What the axes span.
#[derive(Debug, Clone, Copy)]
struct Span {
    scale: Scale,
    size_min: f64,
    size_max: f64,
    share_min: f64,
    share_max: f64,
}

impl Span {
    /// 0 for the smallest size, 1 for the largest.
    fn across(&self, size: f64) -> f64 {
        let along = |size: f64| match self.scale {
            Scale::Linear => size - self.size_min,
            Scale::Logarithmic => (size / self.size_min).ln(),
        };
        let width = along(self.size_max);
        if width > 0.0 { along(size) / width } else { 0.5 }
    }

    /// 0 at the lower end of the shares, 1 at the upper.
    fn up(&self, share: f64) -> f64 {
        (share - self.share_min) / (self.share_max - self.share_min)
    }
}

impl Chart {
    fn span(&self) -> Option<Span> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        points().next()?;
        let fold = |of: fn(&(f64, f64)) -> f64, pick: fn(f64, f64) -> f64| {
            points().map(of).reduce(pick).unwrap_or(1.0)
        };
        let (low, high) = (fold(|p| p.1, f64::min), fold(|p| p.1, f64::max));
        // Whole tenths, at least one of them.
        let share_min = (low * 10.0).floor().clamp(0.0, 9.0) / 10.0;
        let share_max = (high * 10.0).ceil().clamp(share_min * 10.0 + 1.0, 10.0) / 10.0;
        let size_min = match self.scale {
            Scale::Linear => fold(|p| p.0, f64::min),
            Scale::Logarithmic => fold(|p| p.0, f64::min).max(f64::MIN_POSITIVE),
        };
        Some(Span {
            scale: self.scale,
            size_min,
            size_max: fold(|p| p.0, f64::max),
            share_min,
            share_max,
        })
    }

    /// The chart in lines of text.
    pub fn text(&self) -> String {
        let Some(span) = self.span() else { return format!("{}: nothing to show\n", self.title) };
        let mut cells = vec![vec![' '; COLUMNS]; ROWS];
        let column = |size: f64| (span.across(size) * (COLUMNS - 1) as f64).round() as usize;
        let row = |share: f64| ROWS - 1 - (span.up(share) * (ROWS - 1) as f64).round() as usize;
        for curve in &self.curves {
            for pair in curve.points.windows(2) {
                let (from, to) = (column(pair[0].0), column(pair[1].0));
                let between = |at: usize| (at - from) as f64 / (to - from) as f64;
                let dots = (from + 1..to)
                    .map(|at| (row(pair[0].1 + between(at) * (pair[1].1 - pair[0].1)), at));
                for (line, at) in dots {
                    let cell = &mut cells[line][at];
                    *cell = if *cell == ' ' { '.' } else { *cell };
                }
            }
        }
        for (number, curve) in self.curves.iter().enumerate() {
            for (size, share) in &curve.points {
                cells[row(*share)][column(*size)] = MARKS[number % MARKS.len()];
            }
        }
        let mut out = format!("{}\n", self.title);
        for (at, line) in cells.iter().enumerate() {
            let up = 1.0 - at as f64 / (ROWS - 1) as f64;
            let share = span.share_min + up * (span.share_max - span.share_min);
            let label =
                if at % 5 == 0 { format!("{:5.1} %", share * 100.0) } else { " ".repeat(7) };
            let line: String = line.iter().collect();
            let _ = writeln!(out, "{label} |{}", line.trim_end());
        }
        let _ = writeln!(out, "{} +{}", " ".repeat(7), "-".repeat(COLUMNS));
        let (small, large) = (short(span.size_min), short(span.size_max));
        let gap = (COLUMNS + 1).saturating_sub(small.len() + large.len()).max(1);
        let _ = writeln!(out, "{}{small}{}{large} {}", " ".repeat(8), " ".repeat(gap), self.unit);
        let names = self.curves.iter().enumerate();
        let names = names.map(|(n, curve)| format!("{} {}", MARKS[n % MARKS.len()], curve.name));
        let _ = writeln!(out, "{}{}", " ".repeat(9), names.collect::<Vec<_>>().join("   "));
        out
    }

    /// The chart as a picture.
    pub fn svg(&self) -> String {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            escaped(&self.title)
        );
        let Some(span) = self.span() else { return out + "</svg>\n" };
        let area = Area { span, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
        self.svg_axes(&mut out, &area);
        self.events.iter().for_each(|event| svg_event(&mut out, &area, event));
        for (number, curve) in self.curves.iter().enumerate() {
            svg_curve(&mut out, &area, number, curve);
        }
        out + "</svg>\n"
    }

    /// Lines of the shares, sizes and the unit below.
    fn svg_axes(&self, out: &mut String, area: &Area) {
        let Area { span, width, height } = area;
        let steps = ((span.share_max - span.share_min) * 10.0).round() as u32;
        for step in 0..=steps {
            let share = span.share_min + f64::from(step) / 10.0;
            let at = area.y(share);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" \
                 stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
                LEFT + width,
                LEFT - 6.0,
                at + 4.0,
                share * 100.0
            );
        }
        let mut sizes: Vec<f64> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0)).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        for size in sizes.iter().step_by(sizes.len().div_ceil(10).max(1)) {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                area.x(*size),
                TOP + height + 18.0,
                short(*size)
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            LEFT + width / 2.0,
            TOP + height + 38.0,
            escaped(&self.unit)
        );
    }
}

/// Where sizes and shares stand in the picture.
struct Area {
    span: Span,
    width: f64,
    height: f64,
}

impl Area {
    fn x(&self, size: f64) -> f64 {
        LEFT + self.span.across(size) * self.width
    }

    fn y(&self, share: f64) -> f64 {
        TOP + (1.0 - self.span.up(share)) * self.height
    }
}

/// An upright line with the name of what happened.
fn svg_event(out: &mut String, area: &Area, (at, name): &(f64, String)) {
    let _ = writeln!(
        out,
        "<line x1=\"{0:.1}\" y1=\"{TOP}\" x2=\"{0:.1}\" y2=\"{1:.1}\" stroke=\"#888\" \
         stroke-dasharray=\"4 3\"/><text x=\"{2:.1}\" y=\"{3:.1}\">{4}</text>",
        area.x(*at),
        TOP + area.height,
        area.x(*at) + 4.0,
        TOP + area.height - 6.0,
        escaped(name)
    );
}

/// A curve with its points, and its name at the right.
fn svg_curve(out: &mut String, area: &Area, number: usize, curve: &Curve) {
    let color = COLORS[number % COLORS.len()];
    let place = |p: &(f64, f64)| format!("{:.1},{:.1}", area.x(p.0), area.y(p.1));
    let points: Vec<String> = curve.points.iter().map(place).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
        points.join(" ")
    );
    for (size, share) in &curve.points {
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{color}\"/>",
            area.x(*size),
            area.y(*share)
        );
    }
    let at = TOP + 14.0 + 20.0 * number as f64;
    let _ = writeln!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{color}\"/>\
         <text x=\"{:.1}\" y=\"{at:.1}\">{}</text>",
        LEFT + area.width + 14.0,
        at - 10.0,
        LEFT + area.width + 32.0,
        escaped(&curve.name)
    );
}

/// A size in few characters.
fn short(size: f64) -> String {
    match size {
        s if s >= 1e9 => format!("{:.1}G", s / 1e9),
        s if s >= 1e6 => format!("{:.1}M", s / 1e6),
        s if s >= 1e4 => format!("{:.0}k", s / 1e3),
        s => format!("{s:.0}"),
    }
}

fn escaped(text: &str) -> String {
    let shown = text.replace(char::is_control, " ");
    shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let curve = |name: &str, points: &[(f64, f64)]| Curve {
            name: name.into(),
            points: points.to_vec(),
        };
        Chart {
            title: "hits of zipf <1>".into(),
            unit: "entries".into(),
            scale: Scale::Logarithmic,
            events: Vec::new(),
            curves: vec![
                curve("lru", &[(10.0, 0.21), (100.0, 0.4), (1000.0, 0.7)]),
                curve("sieve", &[(10.0, 0.3), (100.0, 0.5), (1000.0, 0.72)]),
            ],
        }
    }

    #[test]
    fn the_text_is_a_frame_with_marks() {
        insta::assert_snapshot!(chart().text());
    }

    #[test]
    fn the_picture_has_a_line_and_a_name_for_each_curve() {
        let svg = chart().svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("hits of zipf &lt;1&gt;") && svg.contains(">sieve</text>"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn colours_come_round_where_there_are_more_curves() {
        let curve = |number: usize| Curve { name: format!("c{number}"), points: vec![(1.0, 0.5)] };
        let count = 2 * COLORS.len() + 1;
        let svg = Chart { curves: (0..count).map(curve).collect(), ..chart() }.svg();
        for (number, color) in COLORS.iter().enumerate() {
            let wanted = if number == 0 { 3 } else { 2 };
            assert_eq!(svg.matches(&format!("stroke=\"{color}\"")).count(), wanted, "{color}");
        }
    }

    #[test]
    fn times_are_spread_evenly_and_events_stand_among_them() {
        let points = vec![(0.0, 0.2), (10.0, 0.4), (20.0, 0.4)];
        let curves = vec![Curve { name: "hits".into(), points }];
        let events = vec![(10.0, "SET POLICY <s3>".into())];
        let chart = Chart { scale: Scale::Linear, curves, events, ..chart() };
        let svg = chart.svg();
        // The middle of what lies between the margins.
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        assert!(svg.contains(&format!("<circle cx=\"{middle:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("<line x1=\"{middle:.1}\"")), "{svg}");
        assert!(svg.contains(">SET POLICY &lt;s3&gt;</text>"), "{svg}");
    }

    #[test]
    fn one_point_and_none_are_charts_too() {
        let one =
            Chart { curves: vec![Curve { name: "a".into(), points: vec![(5.0, 1.0)] }], ..chart() };
        assert!(one.text().contains('o') && one.svg().contains("<circle"));
        let none = Chart { curves: Vec::new(), ..chart() };
        assert!(none.text().contains("nothing to show") && none.svg().ends_with("</svg>\n"));
    }

    #[test]
    fn sizes_are_told_in_few_characters() {
        for (size, wanted) in [
            (0.0, "0"),
            (999.4, "999"),
            (9_999.0, "9999"),
            (10_000.0, "10k"),
            (999_000.0, "999k"),
            (1e6, "1.0M"),
            (2.5e6, "2.5M"),
            (999e6, "999.0M"),
            (1e9, "1.0G"),
            (1.5e12, "1500.0G"),
        ] {
            assert_eq!(short(size), wanted, "{size}");
        }
    }

    #[test]
    fn the_frame_spans_whole_tenths_and_at_least_one_of_them() {
        for (low, high, top, bottom) in [
            (0.21, 0.72, 80, 20),
            (0.5, 0.5, 60, 50),
            (0.45, 0.45, 50, 40),
            (0.0, 0.0, 10, 0),
            (0.0, 1.0, 100, 0),
            (0.25, 1.0, 100, 20),
            (1.0, 1.0, 100, 90),
        ] {
            let points = vec![(1.0, low), (2.0, high)];
            let curves = vec![Curve { name: "a".into(), points }];
            let chart = Chart { curves, ..chart() };
            let (text, svg) = (chart.text(), chart.svg());
            let lines: Vec<&str> = text.lines().collect();
            for (line, share) in [(lines[1], top), (lines[ROWS], bottom)] {
                assert!(line.starts_with(&format!("{share:3}.0 % |")), "{low}, {high}:\n{text}");
            }
            let tenths = (bottom..=top).step_by(10);
            assert_eq!(svg.matches(" %</text>").count(), tenths.clone().count(), "{svg}");
            for tenth in tenths {
                assert!(svg.contains(&format!(">{tenth} %</text>")), "{tenth}: {svg}");
            }
        }
    }

    #[test]
    fn at_most_ten_sizes_stand_below_the_picture_and_marks_come_round() {
        for (count, wanted) in [(1_u32, 1), (2, 2), (10, 10), (11, 6), (20, 10), (21, 7)] {
            let points = (1..=count).map(|size| (f64::from(size), 0.5)).collect();
            let curves = vec![Curve { name: "a".into(), points }];
            let svg = Chart { curves, ..chart() }.svg();
            // The unit stands there as well.
            assert_eq!(svg.matches("text-anchor=\"middle\"").count(), wanted + 1, "{count}");
        }
        let curve = |number: usize| Curve { name: format!("c{number}"), points: vec![(1.0, 0.5)] };
        let curves = (0..=MARKS.len()).map(curve).collect();
        let text = Chart { curves, ..chart() }.text();
        let legend = text.lines().last().unwrap().trim();
        assert_eq!(legend, "o c0   x c1   + c2   * c3   # c4   @ c5   % c6   & c7   o c8");
    }

    #[test]
    fn no_name_is_taken_for_markup() {
        let odd = "<b a=\"1\">&\u{1}</b>";
        let curves = vec![Curve { name: odd.into(), points: vec![(1.0, 0.5), (2.0, 0.5)] }];
        let events = vec![(1.5, odd.to_owned())];
        let (title, unit, scale) = (odd.to_owned(), odd.to_owned(), Scale::Linear);
        let svg = Chart { title, unit, scale, curves, events }.svg();
        let safe = ">&lt;b a=&quot;1&quot;&gt;&amp; &lt;/b&gt;</text>";
        assert_eq!(svg.matches(safe).count(), 4, "{svg}");
        assert!(!svg.contains("<b") && !svg.contains('\u{1}'), "{svg}");
    }
}
