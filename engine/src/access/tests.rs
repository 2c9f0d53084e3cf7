//! Who may do what, as tables.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::admission::{LevelId, LevelOptions, ServiceLevel, Workload};

/// A role that has others, with grants written as `SELECT on TABLE k.t` in place of the types.
fn role(roles: &[&str], grants: &[(Permission, Resource)]) -> Role {
    Role {
        roles: roles.iter().map(|name| (*name).to_owned()).collect(),
        grants: grants.iter().map(|(one, on)| Grant::new(*one, on.clone())).collect(),
        ..Role::default()
    }
}

fn all(roles: Vec<(&str, Role)>) -> Roles {
    let mut all = Roles::default();
    roles.into_iter().for_each(|(name, role)| all.insert(name.to_owned(), role));
    all
}

#[test]
fn a_permission_holds_for_what_its_resource_covers_and_for_nothing_else() {
    use Permission::{Modify, Select};
    let (table, other) = (Resource::table("k", "t"), Resource::table("k", "u"));
    let (keyspace, elsewhere) = (Resource::keyspace("k"), Resource::table("l", "t"));
    let longer = Resource::table("k2", "t");
    for (granted, asked, wanted) in [
        (&table, &table, true),
        (&table, &other, false),
        (&table, &elsewhere, false),
        (&table, &keyspace, false),
        (&keyspace, &table, true),
        (&keyspace, &other, true),
        (&keyspace, &keyspace, true),
        (&keyspace, &elsewhere, false),
        (&keyspace, &longer, false),
        (&Resource::keyspace("k2"), &table, false),
        (&keyspace, &Resource::AllKeyspaces, false),
        (&Resource::AllKeyspaces, &table, true),
        (&Resource::AllKeyspaces, &keyspace, true),
        (&Resource::AllKeyspaces, &Resource::AllKeyspaces, true),
        (&Resource::AllKeyspaces, &Resource::Administration, false),
        (&Resource::AllKeyspaces, &Resource::Policies, false),
        (&Resource::Administration, &Resource::Administration, true),
        (&Resource::Administration, &Resource::Policies, false),
        (&Resource::Administration, &table, false),
        (&Resource::Policies, &Resource::Policies, true),
        (&Resource::Policies, &Resource::AllKeyspaces, false),
    ] {
        let roles = all(vec![("r", role(&[], &[(Select, granted.clone())]))]);
        assert_eq!(roles.may("r", Select, asked), wanted, "{granted} for {asked}");
        assert!(!roles.may("r", Modify, asked), "another permission on {asked}");
        assert!(!roles.may("s", Select, asked), "a role that does not exist");
    }
}

#[test]
fn permissions_come_through_roles_and_superusers_may_everything() {
    use Permission::{Authorize, Select};
    let table = Resource::table("k", "t");
    let mut admin = role(&[], &[]);
    admin.options.superuser = true;
    let roles = all(vec![
        ("reader", role(&[], &[(Select, table.clone())])),
        ("team", role(&["reader"], &[])),
        ("ann", role(&["team"], &[])),
        ("bob", role(&["gone"], &[])),
        ("admin", admin),
        ("root", role(&["admin", "reader"], &[])),
    ]);
    for (name, permission, resource, wanted) in [
        ("reader", Select, &table, true),
        ("team", Select, &table, true),
        ("ann", Select, &table, true),
        ("ann", Authorize, &table, false),
        ("bob", Select, &table, false),
        ("admin", Authorize, &table, true),
        ("root", Authorize, &Resource::Policies, true),
    ] {
        assert_eq!(roles.may(name, permission, resource), wanted, "{name}: {permission}");
    }
    let supers: Vec<&str> =
        roles.iter().map(|(name, _)| name).filter(|name| roles.is_superuser(name)).collect();
    assert_eq!(supers, ["admin", "root"]);
    let inherited = roles.with_inherited("ann");
    assert_eq!(inherited.keys().copied().collect::<Vec<_>>(), ["ann", "reader", "team"]);
    assert!(roles.with_inherited("nobody").is_empty());
}

#[test]
fn a_circle_of_roles_ends_the_walk() {
    // Nobody can make one; a damaged catalog must not hang anybody either.
    let roles = all(vec![("a", role(&["b"], &[])), ("b", role(&["a"], &[]))]);
    assert_eq!(roles.with_inherited("a").len(), 2);
    assert!(!roles.may("a", Permission::Select, &Resource::AllKeyspaces));
}

#[test]
fn what_goes_takes_its_grants_along() {
    use Permission::Select;
    let grants = [
        (Select, Resource::AllKeyspaces),
        (Select, Resource::keyspace("k")),
        (Select, Resource::table("k", "t")),
        (Select, Resource::table("k", "u")),
        (Select, Resource::table("l", "t")),
    ];
    for (gone, left) in
        [(Resource::table("k", "t"), &[0, 1, 3, 4][..]), (Resource::keyspace("k"), &[0, 4][..])]
    {
        let mut roles = all(vec![("r", role(&["x"], &grants))]);
        roles.forget(&gone);
        let wanted: BTreeSet<Grant> =
            left.iter().map(|at| Grant::new(Select, grants[*at].1.clone())).collect();
        assert_eq!(roles.get("r").unwrap().grants, wanted, "{gone}");
    }
    let mut roles = all(vec![("r", role(&["x"], &grants)), ("x", role(&[], &[]))]);
    roles.remove("x");
    assert!(roles.get("x").is_none() && roles.get("r").unwrap().roles.is_empty());
}

#[test]
fn a_hash_is_not_shown() {
    let password = Some(PasswordHash::new("$argon2id$secret".to_owned()));
    let role =
        Role { options: RoleOptions { password, ..RoleOptions::default() }, ..Role::default() };
    assert!(!format!("{role:?}").contains("secret"), "{role:?}");
    let kept = serde_json::to_string(&role).unwrap();
    assert!(kept.contains("secret"));
    assert_eq!(serde_json::from_str::<Role>(&kept).unwrap(), role);
}

#[test]
fn levels_of_several_roles_are_merged_option_by_option() {
    let level = |id, timeout_ms, workload, shares| ServiceLevel {
        id: LevelId(id),
        options: LevelOptions { timeout_ms, workload, shares },
    };
    let (batch, interactive) = (Some(Workload::Batch), Some(Workload::Interactive));
    let none = level(1, None, None, None);
    let slow = level(2, Some(900), batch, Some(100));
    let fast = level(3, Some(50), interactive, Some(800));
    let vague = level(4, None, interactive, None);
    // Levels; the timeout with its origin, the workload type, the shares, and where reads queue.
    for (levels, timeout, workload, shares, queue) in [
        (&[("none", none)][..], None, None, None, "none"),
        (&[("fast", fast)], Some((50, "fast")), interactive, Some(800), "fast"),
        (&[("fast", fast), ("none", none)], Some((50, "fast")), interactive, Some(800), "fast"),
        (&[("fast", fast), ("slow", slow)], Some((50, "fast")), batch, Some(100), "slow"),
        (&[("none", none), ("vague", vague)], None, interactive, None, "vague"),
        (
            &[("a", level(5, None, interactive, None)), ("b", level(6, None, batch, None))],
            None,
            batch,
            None,
            "b",
        ),
        (&[("a", none), ("b", none)], None, None, None, "a"),
    ] {
        let merged = effective(levels.iter().copied()).unwrap();
        let found = merged.timeout_ms.as_ref().map(|found| (found.value, found.level.as_str()));
        assert_eq!(found, timeout, "{levels:?}");
        assert_eq!(merged.workload.as_ref().map(|found| found.value), workload, "{levels:?}");
        assert_eq!(merged.shares.as_ref().map(|found| found.value), shares, "{levels:?}");
        assert_eq!(merged.level.level, queue, "{levels:?}");
        let whose = levels.iter().find(|(name, _)| *name == queue).unwrap().1;
        assert_eq!(merged.level.value, whose);
    }
    assert_eq!(effective([]), None);
}

#[test]
fn a_token_is_not_shown_and_holds_until_it_expires() {
    let token = |expires_us| {
        let digest = "secret".to_owned();
        AccessToken { digest, created_us: 1000, expires_us }
    };
    for (expires_us, now_us, holds) in [
        (None, i64::MAX, true),
        (Some(5_000_000), 4_999_999, true),
        (Some(5_000_000), 5_000_000, false),
        (Some(5_000_000), i64::MAX, false),
    ] {
        assert_eq!(token(expires_us).holds_at(now_us), holds, "{expires_us:?} at {now_us}");
    }
    let tokens = [("brief", Some(5_000_000)), ("long", None)];
    let tokens = tokens.map(|(name, expires_us)| (name.to_owned(), token(expires_us)));
    let role = Role { tokens: BTreeMap::from(tokens), ..Role::default() };
    assert!(!format!("{role:?}").contains("secret"), "{role:?}");
    let kept = serde_json::to_string(&role).unwrap();
    assert_eq!(serde_json::from_str::<Role>(&kept).unwrap(), role);
}

#[test]
fn a_level_that_goes_is_taken_from_those_that_have_it_only() {
    let with = |level: Option<&str>, login| Role {
        service_level: level.map(str::to_owned),
        options: RoleOptions { login, ..RoleOptions::default() },
        ..Role::default()
    };
    let named = [("a", Some("fast")), ("b", Some("slow")), ("c", None), ("d", Some("fast"))];
    let mut roles = all(named.map(|(name, level)| (name, with(level, name == "b"))).to_vec());
    roles.forget_level("fast");
    let left: Vec<Option<&str>> =
        roles.iter().map(|(_, role)| role.service_level.as_deref()).collect();
    assert_eq!(left, [None, Some("slow"), None, None]);
    // Somebody may come as one of them only.
    assert!(roles.has_logins() && roles.login("b").is_some() && roles.login("a").is_none());
    roles.remove("b");
    assert!(!roles.has_logins() && roles.len() == 3);
}

#[test]
fn each_resource_has_its_permissions_and_its_name() {
    let all = "CREATE ALTER DROP SELECT MODIFY AUTHORIZE";
    for (resource, name, wanted) in [
        (Resource::AllKeyspaces, "ALL KEYSPACES", all),
        (Resource::keyspace("k"), "KEYSPACE k", all),
        (Resource::table("k", "t"), "TABLE k.t", "ALTER DROP SELECT MODIFY AUTHORIZE"),
        (Resource::Administration, "ADMINISTRATION", "ALTER SELECT AUTHORIZE"),
        (Resource::Policies, "POLICIES", "CREATE ALTER DROP AUTHORIZE"),
    ] {
        let names: Vec<&str> = resource.permissions().iter().map(|one| one.name()).collect();
        assert_eq!(names.join(" "), wanted, "{name}");
        for permission in resource.permissions() {
            let grant = Grant::new(*permission, resource.clone());
            assert_eq!(grant.to_string(), format!("{permission} on {name}"));
            let kept = serde_json::to_string(&grant).unwrap();
            assert_eq!(serde_json::from_str::<Grant>(&kept).unwrap(), grant, "{kept}");
        }
    }
}

#[test]
fn each_option_is_told_with_the_first_level_that_says_it() {
    use Workload::{Batch, Interactive};
    // Levels a, b and c; who says the timeout, the shares, the workload type, and the queue.
    for (levels, wanted) in [
        (&[(Some(5), None, Some(7)), (Some(5), Some(Batch), Some(7))][..], "aa-a"),
        (&[(Some(9), Some(Interactive), None), (Some(5), Some(Batch), Some(7))], "bbbb"),
        (&[(None, Some(Batch), Some(1000)), (None, Some(Interactive), Some(1))], "-bbb"),
        (&[(None, Some(Batch), None), (None, None, Some(900))], "-b-b"),
        (&[(None, Some(Batch), None), (None, Some(Batch), None)], "--aa"),
        (&[(None, Some(Interactive), None), (None, Some(Interactive), None)], "--aa"),
        (
            &[
                (None, Some(Interactive), None),
                (None, Some(Batch), None),
                (Some(3), Some(Batch), None),
            ],
            "c-bb",
        ),
        (&[(None, None, None), (Some(3), None, None), (Some(3), None, None)], "b--a"),
    ] {
        let levels = levels.iter().zip(1..).map(|((timeout_ms, workload, shares), id)| {
            let (timeout_ms, workload, shares) = (*timeout_ms, *workload, *shares);
            let options = LevelOptions { timeout_ms, workload, shares };
            ServiceLevel { id: LevelId(id), options }
        });
        let merged = effective(["a", "b", "c"].into_iter().zip(levels)).unwrap();
        let EffectiveLevel { level, timeout_ms, workload, shares } = merged;
        let name = |level: Option<String>| level.unwrap_or_else(|| "-".to_owned());
        let told = [
            name(timeout_ms.map(|found| found.level)),
            name(shares.map(|found| found.level)),
            name(workload.map(|found| found.level)),
            level.level,
        ];
        assert_eq!(told.concat(), wanted);
    }
}

#[test]
fn each_permission_is_granted_alone_whoever_it_comes_from() {
    for granted in Permission::ALL {
        let roles = all(vec![
            ("giver", role(&[], &[(granted, Resource::keyspace("k"))])),
            ("member", role(&["giver"], &[])),
        ]);
        for asked in Permission::ALL {
            for name in ["giver", "member"] {
                let may = roles.may(name, asked, &Resource::table("k", "t"));
                assert_eq!(may, asked == granted, "{name}: {asked} by {granted}");
            }
        }
    }
}

#[test]
fn a_view_reads_what_it_names_together_with_its_keyspace() {
    let reads = [("k", "t"), ("l", "u")];
    let reads = reads.map(|(keyspace, name)| (keyspace.to_owned(), name.to_owned()));
    let view = View {
        keyspace: "m".to_owned(),
        name: "v".to_owned(),
        query: String::new(),
        owner: None,
        reads: BTreeSet::from(reads),
    };
    assert_eq!(view.full_name(), "m.v");
    for (keyspace, name, wanted) in [
        ("k", "t", true),
        ("l", "u", true),
        ("k", "u", false),
        ("l", "t", false),
        ("k", "tt", false),
        ("K", "t", false),
        ("m", "v", false),
    ] {
        assert_eq!(view.reads(keyspace, name), wanted, "{keyspace}.{name}");
    }
}
