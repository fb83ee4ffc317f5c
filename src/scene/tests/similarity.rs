//! Names that are like a text, by vectors that a test makes up.

use eh_contract::geometry::Vec3;
use eh_contract::scene::SceneObject;
use eh_contract::Stamp;
use eh_scene::lexicon::Lexicon;
use eh_scene::similarity::{cosine, find_like, text_of, unknown_texts, Vectors};
use eh_scene::{Query, SceneGraph};

fn graph() -> SceneGraph {
    let mut graph = SceneGraph::new("m", "map");
    for (name, class, x) in [
        ("cup_1", "cup", 0.0),
        ("cup_2", "cup", 5.0),
        ("goblet_1", "goblet", 1.0),
        ("sofa_1", "sofa", 2.0),
    ] {
        let mut object = SceneObject {
            r#ref: name.into(),
            class_name: class.into(),
            ..SceneObject::default()
        };
        object.pose.position = Vec3::new(x, 0.0, 0.0);
        graph.insert(object, Stamp(1));
    }
    graph
}

/// Cups and goblets point nearly the same way, sofas across.
fn vectors() -> Vectors {
    let mut vectors = Vectors::new("made up", 100);
    for (text, vector) in [
        ("cup", [1.0, 0.0]),
        ("goblet", [0.8, 0.6]),
        ("sofa", [0.0, 1.0]),
    ] {
        vectors.keep(text, vector.to_vec()).unwrap();
    }
    vectors
}

fn found(query: &Query, asked: &[f32], least: f64) -> Vec<(String, bool)> {
    let (graph, vectors) = (graph(), vectors());
    find_like(&graph, query, &Lexicon::builtin(), &vectors, asked, least)
        .unwrap()
        .into_iter()
        .map(|r| (r.object.r#ref.clone(), r.by_words))
        .collect()
}

fn text(text: &str) -> Query {
    Query {
        text: text.into(),
        ..Query::default()
    }
}

fn names(list: &[(&str, bool)]) -> Vec<(String, bool)> {
    list.iter().map(|(n, w)| (n.to_string(), *w)).collect()
}

#[test]
fn what_is_like_a_text_is_found_without_a_word_of_it() {
    // No word fits: the nearest direction first, of two alike by ref.
    assert_eq!(
        found(&text("chalice"), &[0.8, 0.6], 0.7),
        names(&[("goblet_1", false), ("cup_1", false), ("cup_2", false)])
    );
    // Nothing is like enough.
    assert_eq!(found(&text("chalice"), &[-1.0, 0.0], 0.5), []);
}

#[test]
fn what_fits_by_words_comes_first_even_when_its_vector_says_otherwise() {
    assert_eq!(
        found(&text("cup"), &[0.0, 1.0], 0.5),
        names(&[
            ("cup_1", true),
            ("cup_2", true),
            ("sofa_1", false),
            ("goblet_1", false)
        ])
    );
    let one = Query {
        limit: 1,
        ..text("cup")
    };
    assert_eq!(found(&one, &[0.0, 1.0], 0.5), names(&[("cup_1", true)]));
}

#[test]
fn filters_and_distance_count_for_what_is_only_like_it_as_well() {
    let class = Query {
        class_name: "goblet".into(),
        ..text("chalice")
    };
    assert_eq!(
        found(&class, &[1.0, 0.0], 0.5),
        names(&[("goblet_1", false)])
    );
    let refs = Query {
        refs: vec!["cup_2".into(), "sofa_1".into()],
        ..text("chalice")
    };
    assert_eq!(found(&refs, &[1.0, 0.0], 0.5), names(&[("cup_2", false)]));
    let near = Query {
        nearest: Some(Vec3::new(6.0, 0.0, 0.0)),
        max_distance: 5.5,
        ..text("chalice")
    };
    // The nearest first, and cup_1 is 6 m away.
    assert_eq!(
        found(&near, &[0.8, 0.6], 0.5),
        names(&[("cup_2", false), ("sofa_1", false), ("goblet_1", false)])
    );
    let bad = Query {
        max_distance: f64::NAN,
        ..text("chalice")
    };
    let (graph, vectors) = (graph(), vectors());
    assert!(find_like(
        &graph,
        &bad,
        &Lexicon::builtin(),
        &vectors,
        &[1.0, 0.0],
        0.5
    )
    .is_err());
}

#[test]
fn vectors_are_bounded_and_of_one_dimension() {
    let mut vectors = Vectors::new("m", 4);
    vectors.keep("a", vec![1.0, 0.0]).unwrap();
    vectors.keep("b", vec![0.0, 1.0]).unwrap();
    vectors.keep("b", vec![1.0, 1.0]).unwrap();
    assert_eq!(vectors.len(), 2);
    vectors.keep("c", vec![0.0, 1.0]).unwrap();
    assert_eq!(
        (vectors.len(), vectors.get("a"), vectors.get("b")),
        (2, None, Some([1.0, 1.0].as_slice()))
    );
    for (bad, why) in [
        (vec![1.0], "has 1 numbers, those before had 2"),
        (vec![], "empty"),
        (vec![f32::NAN, 0.0], "no finite number"),
    ] {
        let error = vectors.keep("d", bad).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = Vectors::new("m", 1).keep("a", vec![1.0, 0.0]).unwrap_err();
    assert!(error.to_string().contains("room for 1"), "{error}");
}

#[test]
fn only_texts_without_a_vector_are_asked_for_each_once() {
    let graph = graph();
    let mut vectors = Vectors::new("m", 100);
    let all = unknown_texts(&graph, &vectors, 100);
    assert_eq!(Vec::from_iter(&all), ["cup", "goblet", "sofa"]);
    assert_eq!(unknown_texts(&graph, &vectors, 2).len(), 2);
    vectors.keep("cup", vec![1.0]).unwrap();
    assert!(!unknown_texts(&graph, &vectors, 100).contains("cup"));
    let long = SceneObject {
        class_name: "c".into(),
        aliases: (0..1000).map(|i| format!("name{i}")).collect(),
        ..SceneObject::default()
    };
    assert!(text_of(&long).len() <= 512);
}

#[test]
fn a_cosine_is_total() {
    assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
    assert_eq!(cosine(&[2.0, 0.0], &[-3.0, 0.0]), -1.0);
    for (a, b) in [
        (vec![1.0], vec![1.0, 1.0]),
        (vec![0.0], vec![1.0]),
        (vec![f32::NAN], vec![1.0]),
        (vec![], vec![]),
    ] {
        assert_eq!(cosine(&a, &b), 0.0, "{a:?} {b:?}");
    }
}
