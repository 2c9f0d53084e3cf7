//! The grid of a disk: latency of reads by how much is read and written, as text and as SVG.

use std::fmt::Write;

/// Colours of a cell from the least latency to ten times that and more: of a terminal with 256, and
/// of a page.
const COLORS: [(u8, &str); 7] = [
    (22, "#1a7f37"),
    (28, "#4f9d3a"),
    (64, "#8cb63c"),
    (136, "#d4a72c"),
    (166, "#e16f24"),
    (160, "#cf222e"),
    (88, "#82071e"),
];
/// The latency that has the last colour, as a multiple of the least.
const LAST_TIMES: f64 = 10.0;

/// Cells of the picture, and where its frame begins.
const CELL: (f64, f64) = (92.0, 44.0);
const CORNER: (f64, f64) = (110.0, 40.0);

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grid {
    /// Reads a second, ascending: the columns.
    pub reads: Vec<f64>,
    /// Bytes written a second, ascending: the rows.
    pub writes: Vec<f64>,
    /// p50 and p95 of a read, µs; row after row.
    pub cells: Vec<(f64, f64)>,
    /// The most of each that the disk can do alone.
    pub ends: (f64, f64),
}

impl Grid {
    /// Which of [`COLORS`] a latency has, by its ratio to the least one.
    fn shade(&self, p95: f64) -> usize {
        let least = self.cells.iter().map(|cell| cell.1).fold(f64::MAX, f64::min).max(1.0);
        let part = (p95 / least).max(1.0).ln() / LAST_TIMES.ln();
        ((part * COLORS.len() as f64) as usize).min(COLORS.len() - 1)
    }

    fn rows(&self) -> impl Iterator<Item = (f64, &[(f64, f64)])> {
        let rows = self.cells.chunks(self.reads.len());
        self.writes.iter().copied().zip(rows).rev()
    }

    /// Lines for a terminal: p95 in µs, the greatest writes on top. Cells beyond what the disk can
    /// do by the sum of both parts have a dot.
    pub fn text(&self, colors: bool) -> String {
        let mut text = String::from("p95 of a read, µs\n MiB/s written\n");
        for (written, cells) in self.rows() {
            let _ = write!(text, "{:>9.0} ", written / f64::from(1 << 20));
            for (reads, (_, p95)) in self.reads.iter().zip(cells) {
                let mark = if self.is_beyond(*reads, written) { '.' } else { ' ' };
                let cell = format!("{p95:>8.0}{mark}");
                let _ = match colors {
                    true => {
                        let color = COLORS[self.shade(*p95)].0;
                        write!(text, "\x1b[97;48;5;{color}m{cell}\x1b[0m")
                    }
                    false => write!(text, "{cell}"),
                };
            }
            text.push('\n');
        }
        let _ = write!(text, "  reads/s ");
        for reads in &self.reads {
            let _ = write!(text, "{reads:>8.0} ");
        }
        text.push('\n');
        text
    }

    fn is_beyond(&self, reads: f64, written: f64) -> bool {
        reads / self.ends.0 + written / self.ends.1 > 1.0
    }

    /// A picture of its own: a cell has p50 and p95, the frame of those beyond the sum is dashed.
    pub fn svg(&self) -> String {
        let (columns, rows) = (self.reads.len() as f64, self.writes.len() as f64);
        let (width, height) = (CORNER.0 + columns * CELL.0 + 20.0, CORNER.1 + rows * CELL.1 + 60.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        let mut label = |(x, y): (f64, f64), fill: &str, text: String| {
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\">{text}</text>");
        };
        label((width / 2.0, 22.0), "black", "p50 / p95 of a read, µs".to_owned());
        for (at, reads) in self.reads.iter().enumerate() {
            let x = CORNER.0 + (at as f64 + 0.5) * CELL.0;
            label((x, height - 38.0), "black", format!("{reads:.0}"));
        }
        label((width / 2.0, height - 16.0), "black", "reads of 4 KiB a second".to_owned());
        for (at, (written, _)) in self.rows().enumerate() {
            let y = CORNER.1 + (at as f64 + 0.5) * CELL.1 + 4.0;
            label(
                (CORNER.0 / 2.0, y),
                "black",
                format!("{:.0} MiB/s", written / f64::from(1 << 20)),
            );
        }
        for (row, (written, cells)) in self.rows().enumerate() {
            for (column, (reads, (p50, p95))) in self.reads.iter().zip(cells).enumerate() {
                let x = CORNER.0 + column as f64 * CELL.0;
                let y = CORNER.1 + row as f64 * CELL.1;
                let color = COLORS[self.shade(*p95)].1;
                let dash =
                    if self.is_beyond(*reads, written) { " stroke-dasharray=\"4 3\"" } else { "" };
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{color}\" \
                     stroke=\"white\" stroke-width=\"2\"{dash}/>",
                    CELL.0, CELL.1
                );
                let (x, y) = (x + CELL.0 / 2.0, y + CELL.1 / 2.0 + 4.0);
                let _ = writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" fill=\"white\">{p50:.0} / {p95:.0}</text>"
                );
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let cells = vec![(80.0, 100.0), (90.0, 140.0), (100.0, 300.0), (400.0, 2000.0)];
        let mib = f64::from(1 << 20);
        Grid {
            reads: vec![1000.0, 8000.0],
            writes: vec![0.0, 500.0 * mib],
            cells,
            ends: (10_000.0, 1000.0 * mib),
        }
    }

    #[test]
    fn a_grid_is_drawn_with_writes_upwards() {
        let wanted = "p95 of a read, µs\n MiB/s written\n      500      300     2000.\n        0      \
                      100      140 \n  reads/s     1000     8000 \n";
        assert_eq!(grid().text(false), wanted);
        let colored = grid().text(true);
        assert!(colored.contains("48;5;22m     100 ") && colored.contains("48;5;88m    2000."));
    }

    #[test]
    fn a_picture_has_a_cell_for_each_pair() {
        let svg = grid().svg();
        assert_eq!(svg.matches("<rect x=").count(), 4);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1, "one is beyond the sum");
        for text in ["80 / 100", "400 / 2000", "500 MiB/s", "#1a7f37", "#82071e"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn a_colour_says_how_many_times_the_least_latency_there_is() {
        let grid = grid();
        // Seven steps to ten times the least one, each by the same factor.
        for (p95, shade) in [
            (0.0, 0),
            (99.0, 0),
            (100.0, 0),
            (138.0, 0),
            (140.0, 1),
            (192.0, 1),
            (194.0, 2),
            (719.0, 5),
            (721.0, 6),
            (1000.0, 6),
            (1e9, 6),
        ] {
            assert_eq!(grid.shade(p95), shade, "{p95}");
        }
        let none = Grid { cells: vec![(0.0, 0.0); 4], ..grid };
        assert_eq!((none.shade(0.0), none.shade(1.0)), (0, 0));
    }

    #[test]
    fn what_the_disk_can_do_in_all_is_not_beyond_it() {
        let grid = grid();
        let mib = f64::from(1 << 20);
        for (reads, mib_written, is_beyond) in [
            (0.0, 0.0, false),
            (10_000.0, 0.0, false),
            (10_001.0, 0.0, true),
            (0.0, 1000.0, false),
            (0.0, 1001.0, true),
            (5000.0, 500.0, false),
            (5001.0, 500.0, true),
            (5000.0, 501.0, true),
        ] {
            let found = grid.is_beyond(reads, mib_written * mib);
            assert_eq!(found, is_beyond, "{reads} reads, {mib_written} MiB");
        }
    }
}
