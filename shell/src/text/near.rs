//! Names that were meant: what is known beside what was typed.

/// The known name at most two edits away, the nearest first.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (edit_distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a_char) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b_char) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a_char != *b_char);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["temp", "dewp", "origin", "id"];
        assert_eq!(nearest("tmep", known), Some("temp"));
        assert_eq!(nearest("ORIGN", known), Some("origin"));
        assert_eq!(nearest("pressure", known), None);
        assert_eq!(nearest("xy", known), None);
    }

    #[test]
    fn of_several_near_names_the_nearest_is_meant_and_the_first_of_those() {
        assert_eq!(nearest("orgin", ["origins", "origin"]), Some("origin"));
        assert_eq!(nearest("tem", ["temp", "item"]), Some("temp"));
        assert_eq!(nearest("temp", ["tempe", "TEMP"]), Some("TEMP"));
        assert_eq!(nearest("tempxy", ["temp"]), Some("temp"));
        assert_eq!(nearest("tempxyz", ["temp"]), None);
        // Of a short name nothing must be left to be another one.
        assert_eq!((nearest("a", ["b"]), nearest("ac", ["ab"])), (None, Some("ab")));
    }
}
