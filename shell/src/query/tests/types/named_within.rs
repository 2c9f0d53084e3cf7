//! UUIDs that functions take out of lists and maps, or look for in them.

use crate::query::tests::World;

const ID: &str = "aaaaaaaa-0000-4000-8000-0000000000aa";
const OTHER: &str = "bbbbbbbb-0000-4000-8000-0000000000bb";

async fn world() -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (k int PRIMARY KEY, one list<uuid>, two list<uuid>, v map<text, uuid>, \
             m map<uuid, int>)",
        )
        .await;
    world
        .run(&format!(
            "INSERT INTO t VALUES (1, ['{ID}'], ['{ID}', '{OTHER}'], {{'a': '{ID}'}}, \
             {{'{ID}': 5}})"
        ))
        .await;
    world
}

/// A text with the UUIDs in capitals in the places of ID and OTHER.
fn in_capitals(text: &str) -> String {
    text.replace("OTHER", &OTHER.to_uppercase()).replace("ID", &ID.to_uppercase())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_functions_take_out_of_lists_and_maps_is_compared_by_what_it_names() {
    let world = world().await;
    for condition in [
        "array_element(two, 2) = 'OTHER'",
        "array_any_value(one) = 'ID'",
        "array_max(one) = 'ID'",
        "array_min(one) = 'ID'",
        "array_slice(two, 2, 2) = ['OTHER']",
        "array_distinct(one) = ['ID']",
        "array_sort(one) = ['ID']",
        "array_reverse(two) = ['OTHER', 'ID']",
        "array_pop_front(two) = ['OTHER']",
        "array_pop_back(two) = ['ID']",
        "array_element(array_reverse(two), 1) = 'OTHER'",
        "map_values(v) = ['ID']",
        "v['a'] = 'ID'",
        "v['a'] IN ('x', 'ID')",
        "array_element(map_keys(m), 1) = 'ID'",
    ] {
        let condition = in_capitals(condition);
        for (condition, wanted) in [(condition.clone(), "1"), (format!("NOT ({condition})"), "0")] {
            let query = format!("SELECT count(*) FROM t WHERE {condition}");
            assert_eq!(world.column(&query).await, [wanted], "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_functions_look_for_in_lists_and_maps_is_found_by_what_it_names() {
    let world = world().await;
    for (call, wanted) in [
        ("array_has(two, 'OTHER')", "true"),
        ("array_position(two, 'OTHER')", "2"),
        ("array_length(array_positions(two, 'ID'))", "1"),
        ("array_length(array_remove(two, 'ID'))", "1"),
        ("array_length(array_remove_n(two, 'ID', 1))", "1"),
        ("array_length(array_remove_all(two, 'ID'))", "1"),
        ("array_has_all(two, ['OTHER', 'ID'])", "true"),
        ("array_has_all(['ID', 'OTHER'], two)", "true"),
        ("array_has_any(['ID'], two)", "true"),
        ("array_length(array_intersect(two, ['ID']))", "1"),
        ("array_length(array_union(one, ['ID']))", "1"),
        ("array_length(array_union(['ID'], one))", "1"),
        ("array_length(array_except(two, ['ID']))", "1"),
        ("m['ID']", "5"),
        ("map_extract(m, 'ID')[1]", "5"),
    ] {
        let query = format!("SELECT {} FROM t", in_capitals(call));
        assert_eq!(world.column(&query).await, [wanted], "{query}");
    }
}
