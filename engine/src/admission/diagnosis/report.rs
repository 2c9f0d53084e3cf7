//! What the log says when a read is refused or ended: who holds what, and what is short.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::reads::{ReadState, ReadStatus};

/// Groups of reads that a report names.
const GROUPS_MAX: usize = 20;
/// Thousandths of an interval for which reads computed when the processor is short.
const BUSY_PER_MILLE: u64 = 800;

/// What a report is made of.
pub(in crate::admission) struct Scene<'a> {
    /// Why a read was refused or ended.
    pub problem: &'a str,
    pub reads: &'a [ReadStatus],
    /// Names of the levels of these reads, in the same order.
    pub names: &'a [String],
    /// Thousandths of the last interval for which reads computed.
    pub busy_per_mille: u64,
    pub has_memory: bool,
    pub has_turns: bool,
}

/// The report, some lines.
pub(in crate::admission) fn report(scene: &Scene<'_>) -> String {
    let short = [
        ("CPU", scene.busy_per_mille >= BUSY_PER_MILLE),
        ("memory", !scene.has_memory),
        ("disk", !scene.has_turns && scene.busy_per_mille < BUSY_PER_MILLE),
    ];
    let short: Vec<&str> = short.into_iter().filter(|(_, is)| *is).map(|(what, _)| what).collect();
    let bottleneck = if short.is_empty() { "none".to_owned() } else { short.join(", ") };
    let mut groups: BTreeMap<(&str, &str, &str, ReadState), (u64, u64)> = BTreeMap::new();
    for (read, name) in scene.reads.iter().zip(scene.names) {
        let group = groups.entry((name, &read.table, read.class, read.state)).or_default();
        *group = (group.0 + 1, group.1 + read.memory_bytes);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, bytes))| std::cmp::Reverse((*bytes, *count)));
    let mut text = format!("{}\nbottleneck: {bottleneck}\n", scene.problem);
    text.push_str("reads\tbytes\tservice level\ttable\tclass\tstate\n");
    for ((level, table, class, state), (count, bytes)) in groups.iter().take(GROUPS_MAX) {
        let state = state.as_str();
        let line = format!("{count}\t{bytes}\t{level}\t{table}\t{class}\t{state}\n");
        text.push_str(&line);
    }
    let rest: u64 = groups.iter().skip(GROUPS_MAX).map(|(_, (count, _))| count).sum();
    if rest > 0 {
        let _ = writeln!(text, "{rest}\tmore reads");
    }
    let bytes: u64 = scene.reads.iter().map(|read| read.memory_bytes).sum();
    let _ = write!(
        text,
        "{}\t{bytes}\tall; reads of single rows are not among them",
        scene.reads.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::LevelId;

    fn read(number: u64, table: &str, state: ReadState, memory_bytes: u64) -> ReadStatus {
        let (level, class, age_us) = (LevelId(number % 2), "keys", 5);
        ReadStatus { number, table: table.into(), level, class, state, age_us, memory_bytes }
    }

    fn scene<'a>(reads: &'a [ReadStatus], names: &'a [String]) -> Scene<'a> {
        let problem = "overloaded: 7 wait";
        Scene { problem, reads, names, busy_per_mille: 0, has_memory: true, has_turns: true }
    }

    #[test]
    fn reads_are_told_by_what_they_hold_and_the_first_limit_is_named() {
        let reads = [
            read(0, "a.t", ReadState::Running, 5),
            read(1, "a.t", ReadState::Queued, 0),
            read(2, "a.t", ReadState::Running, 6),
            read(3, "a.u", ReadState::Client, 900),
        ];
        let names: Vec<String> = ["x", "y", "x", "y"].map(str::to_owned).to_vec();
        assert_eq!(
            report(&Scene { has_memory: false, ..scene(&reads, &names) }),
            "overloaded: 7 wait\n\
             bottleneck: memory\n\
             reads\tbytes\tservice level\ttable\tclass\tstate\n\
             1\t900\ty\ta.u\tkeys\twaits for its client\n\
             2\t11\tx\ta.t\tkeys\trunning\n\
             1\t0\ty\ta.t\tkeys\tqueued\n\
             4\t911\tall; reads of single rows are not among them"
        );
        for (busy_per_mille, has_memory, has_turns, wanted) in [
            (0, true, true, "none"),
            (900, true, true, "CPU"),
            (900, true, false, "CPU"),
            (10, true, false, "disk"),
            (10, false, false, "memory, disk"),
        ] {
            let scene = Scene { busy_per_mille, has_memory, has_turns, ..scene(&[], &[]) };
            let text = report(&scene);
            assert!(text.contains(&format!("bottleneck: {wanted}\n")), "{text}");
        }
    }

    #[test]
    fn a_report_has_an_end() {
        let of = |number| read(number, &format!("a.t{number}"), ReadState::Running, number);
        let reads: Vec<ReadStatus> = (0..30).map(of).collect();
        let names = vec!["x".to_owned(); 30];
        let text = report(&scene(&reads, &names));
        assert_eq!(text.lines().count(), 3 + GROUPS_MAX + 2);
        assert!(text.contains("\n10\tmore reads\n"), "{text}");
    }

    #[test]
    fn reads_that_hold_as_much_stand_by_their_number_and_then_by_their_names() {
        let of = |table: &str, state, memory_bytes| read(0, table, state, memory_bytes);
        let reads = [
            of("a.w", ReadState::Queued, 0),
            of("a.u", ReadState::Running, 10),
            of("a.t", ReadState::Running, 5),
            of("a.v", ReadState::Memory, 0),
            of("a.t", ReadState::Running, 5),
            of("a.v", ReadState::Memory, 0),
            of("a.t", ReadState::Client, 0),
        ];
        let names = vec!["x".to_owned(); reads.len()];
        let text = report(&scene(&reads, &names));
        let lines: Vec<&str> = text.lines().skip(3).collect();
        let wanted = [
            "2\t10\tx\ta.t\tkeys\trunning",
            "1\t10\tx\ta.u\tkeys\trunning",
            "2\t0\tx\ta.v\tkeys\twaits for memory",
            "1\t0\tx\ta.t\tkeys\twaits for its client",
            "1\t0\tx\ta.w\tkeys\tqueued",
            "7\t20\tall; reads of single rows are not among them",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_limit_of_a_report_is_just_where_it_says() {
        for (groups, more) in [(GROUPS_MAX, None), (GROUPS_MAX + 1, Some("1\tmore reads"))] {
            let of = |number| read(number, &format!("a.t{number}"), ReadState::Running, number);
            let reads: Vec<ReadStatus> = (0..groups as u64).map(of).collect();
            let names = vec!["x".to_owned(); groups];
            let text = report(&scene(&reads, &names));
            assert_eq!(text.lines().find(|line| line.ends_with("more reads")), more, "{text}");
        }
        for (busy_per_mille, wanted) in [(BUSY_PER_MILLE - 1, "disk"), (BUSY_PER_MILLE, "CPU")] {
            let text = report(&Scene { busy_per_mille, has_turns: false, ..scene(&[], &[]) });
            assert!(text.contains(&format!("bottleneck: {wanted}\n")), "{text}");
        }
    }
}
