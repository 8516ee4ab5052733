//! The router's choices, as seen by users of patterns.

use wire::Method;

use server::{Match, ParameterKind, Parameters, Router};

fn router(patterns: &[(&str, &str)]) -> Router {
    let mut router = Router::new();
    for (index, (method, pattern)) in patterns.iter().enumerate() {
        let (route, _) = router
            .add(method, pattern)
            .expect("a pattern of these tests is well formed");
        assert_eq!(route, index);
    }
    router
}

fn found(router: &Router, method: &str, path: &str) -> String {
    let mut parameters = Parameters::default();
    match router.find(
        Method::from_bytes(method.as_bytes()),
        method.as_bytes(),
        path.as_bytes(),
        &mut parameters,
    ) {
        Match::Route(route) => {
            let values = (0..).map_while(|index| parameters.get(index, path.as_bytes()));
            let values: Vec<_> = values
                .map(|value| String::from_utf8_lossy(value).into_owned())
                .collect();
            format!("{route} {}", values.join("|"))
                .trim_end()
                .to_string()
        }
        Match::OtherMethods(allow) => format!("allow {allow}"),
        Match::None => "none".to_string(),
    }
}

#[test]
fn the_most_specific_route_wins_and_dead_ends_backtrack() {
    let router = router(&[
        ("GET", "/"),
        ("GET", "/users/me"),
        ("GET", "/users/{id:int}"),
        ("GET", "/users/{name}"),
        ("GET", "/users/{id:int}/posts"),
        ("GET", "/users/{name}/likes"),
        ("GET", "/{rest:path}"),
        ("POST", "/users/me"),
    ]);
    for (path, expected) in [
        ("/", "0"),
        ("/users/me", "1"),
        ("/users/%6De", "1"),
        ("/users/12", "2 12"),
        ("/users/-12", "2 -12"),
        ("/users/12x", "3 12x"),
        ("/users/99999999999999999999", "3 99999999999999999999"),
        ("/users/12/posts", "4 12"),
        ("/users/12/likes", "5 12"),
        ("/users/12/other", "6 users/12/other"),
        ("/users/", "6 users/"),
        ("/users/a%2Fb", "3 a%2Fb"),
        ("/x", "6 x"),
        ("//", "6 /"),
    ] {
        assert_eq!(found(&router, "GET", path), expected, "{path}");
    }
    assert_eq!(found(&router, "HEAD", "/users/me"), "1");
    assert_eq!(found(&router, "POST", "/users/me"), "7");
    assert_eq!(found(&router, "PUT", "/users/me"), "allow GET, HEAD, POST");
}

#[test]
fn a_path_without_a_route_is_not_found() {
    let router = router(&[("GET", "/a/b"), ("POST", "/a/{x}/c")]);
    for path in ["/", "/a", "/a/", "/a/b/", "/a//c", "*", "", "/a/b/c/d"] {
        assert_eq!(found(&router, "GET", path), "none", "{path}");
    }
    assert_eq!(found(&router, "GET", "/a/b/c"), "allow POST");
}

#[test]
fn a_bad_pattern_is_one_plain_sentence() {
    let mut router = Router::new();
    router.add("GET", "/a/{x}").unwrap();
    for (pattern, word) in [
        ("a", "slash"),
        ("/{x:uuid}", "unknown type"),
        ("/{x}y", "bad segment"),
        ("/a%20b", "write a space, not %20"),
        ("/{x}/%", "write a space, not %20"),
        ("/{}", "name"),
        ("/{x}/{x}", "twice"),
        ("/{x:path}/y", "last"),
        ("/a/{y}", "taken"),
    ] {
        let error = router.add("GET", pattern).unwrap_err();
        assert!(error.0.contains(word), "{pattern}: {}", error.0);
    }
    assert_eq!(
        router.add("GET", "/b/{y:int}").unwrap().1,
        [("y".to_string(), ParameterKind::Integer)]
    );
}

#[test]
fn literals_are_compared_decoded() {
    let router = router(&[("GET", "/a b"), ("GET", "/a b/{x}"), ("GET", "/ü")]);
    for (path, expected) in [
        ("/a%20b", "0"),
        ("/%61%20%62", "0"),
        ("/a%20b/c%20d", "1 c%20d"),
        ("/%C3%BC", "2"),
        ("/%c3%bc", "2"),
        ("/a+b", "none"),
        ("/a%2520b", "none"),
    ] {
        assert_eq!(found(&router, "GET", path), expected, "{path}");
    }
}

#[test]
fn the_asterisk_is_not_a_path() {
    let router = router(&[
        ("OPTIONS", "/"),
        ("OPTIONS", "/{name}"),
        ("OPTIONS", "/{rest:path}"),
        ("OPTIONS", "/*"),
    ]);
    assert_eq!(found(&router, "OPTIONS", "*"), "none");
    assert_eq!(found(&router, "OPTIONS", "/*"), "3");
    assert_eq!(found(&router, "OPTIONS", "/"), "0");
}

#[test]
fn the_methods_of_a_router_are_those_of_all_routes_and_options() {
    assert_eq!(Router::new().methods(), "OPTIONS");
    let router = router(&[
        ("GET", "/"),
        ("PUT", "/a"),
        ("GET", "/a"),
        ("PURGE", "/{rest:path}"),
    ]);
    assert_eq!(router.methods(), "GET, HEAD, OPTIONS, PURGE, PUT");
}
