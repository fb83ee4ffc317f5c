//! The graph as markers for RViz.

use eh_contract::scene::{Kind, RelationKind, SceneObject};
use eh_ros_edge::convert::command::{raw_pose_msg, stamp_msg};
use eh_scene::SceneGraph;
use ros_env::geometry_msgs::msg::{Point, Vector3};
use ros_env::std_msgs::msg::{ColorRGBA, Header};
use ros_env::visualization_msgs::msg::{Marker, MarkerArray};

/// Most markers of one message: RViz draws no more of them well.
const MAX_MARKERS: usize = 4000;

/// Smallest edge that is drawn \[m\].
const LEAST_EDGE: f64 = 0.02;

/// Height of the letters \[m\].
const LETTERS: f64 = 0.08;

/// Everything that there is, in one message that takes the place of the one before.
pub(crate) fn markers(graph: &SceneGraph) -> MarkerArray {
    let header = Header {
        stamp: stamp_msg(graph.stamp()),
        frame_id: graph.frame_id().into(),
    };
    let blank = |namespace: &str, kind: i32| Marker {
        header: header.clone(),
        ns: namespace.into(),
        type_: kind,
        action: Marker::ADD,
        ..Marker::default()
    };
    let mut out = vec![Marker {
        header: header.clone(),
        action: Marker::DELETEALL,
        ..Marker::default()
    }];
    let kinds = Kind::ALL.iter().flat_map(|kind| graph.of_kind(*kind));
    for (object, id) in kinds.zip(0..) {
        if out.len() + 3 > MAX_MARKERS {
            break;
        }
        let color = color_of(object);
        if object.kind == Kind::Room && object.outline.len() >= 3 {
            let mut line = blank("outline", Marker::LINE_STRIP);
            line.id = id;
            line.color = color.clone();
            line.scale = edge(0.03);
            line.pose.orientation.w = 1.0;
            let corners = object.outline.iter().chain(object.outline.first());
            line.points = corners
                .map(|c| Point {
                    x: c.x,
                    y: c.y,
                    z: c.z,
                })
                .collect();
            out.push(line);
        } else if !matches!(object.kind, Kind::Building | Kind::Floor) {
            let mut cube = blank(object.kind.name(), Marker::CUBE);
            cube.id = id;
            cube.pose = raw_pose_msg(&object.pose);
            cube.scale = Vector3 {
                x: object.size.x.max(LEAST_EDGE),
                y: object.size.y.max(LEAST_EDGE),
                z: object.size.z.max(LEAST_EDGE),
            };
            cube.color = color;
            out.push(cube);
        }
        if !matches!(object.kind, Kind::Building | Kind::Floor) {
            let mut name = blank("name", Marker::TEXT_VIEW_FACING);
            name.id = id;
            name.pose = raw_pose_msg(&object.pose);
            name.pose.position.z += object.size.z / 2.0 + LETTERS;
            name.scale.z = LETTERS;
            name.color = rgba(1.0, 1.0, 1.0, 1.0);
            name.text = object.r#ref.clone();
            out.push(name);
        }
    }
    out.push(edges(graph, blank("relations", Marker::LINE_LIST)));
    MarkerArray { markers: out }
}

/// A line for each edge between two things.
fn edges(graph: &SceneGraph, mut lines: Marker) -> Marker {
    lines.scale = edge(0.01);
    lines.color = rgba(1.0, 1.0, 0.4, 0.8);
    lines.pose.orientation.w = 1.0;
    for r in graph.relations() {
        // What is in a room is seen to be.
        if !matches!(
            r.relation,
            RelationKind::On | RelationKind::Near | RelationKind::Under | RelationKind::Holds
        ) {
            continue;
        }
        if lines.points.len() + 2 > 2 * MAX_MARKERS {
            break;
        }
        if let (Some(a), Some(b)) = (graph.get(&r.subject), graph.get(&r.object)) {
            for object in [a, b] {
                lines.points.push(raw_pose_msg(&object.pose).position);
            }
        }
    }
    lines
}

fn edge(width: f64) -> Vector3 {
    Vector3 {
        x: width,
        ..Vector3::default()
    }
}

fn rgba(r: f32, g: f32, b: f32, a: f32) -> ColorRGBA {
    ColorRGBA { r, g, b, a }
}

/// By kind; the less sure it is, the more it is seen through.
fn color_of(object: &SceneObject) -> ColorRGBA {
    let (r, g, b) = match object.kind {
        Kind::Object => (0.2, 0.7, 1.0),
        Kind::Person => (1.0, 0.5, 0.1),
        Kind::Robot => (0.9, 0.2, 0.2),
        Kind::Surface | Kind::Container => (0.6, 0.5, 0.4),
        Kind::Door => (0.4, 0.8, 0.4),
        Kind::Place => (0.8, 0.4, 0.9),
        Kind::Room | Kind::Floor | Kind::Building | Kind::Unspecified => (0.7, 0.7, 0.7),
    };
    let alpha = match object.kind {
        // What stands on it has to be seen.
        Kind::Surface | Kind::Container | Kind::Door => 0.4,
        Kind::Object
        | Kind::Person
        | Kind::Robot
        | Kind::Place
        | Kind::Room
        | Kind::Floor
        | Kind::Building
        | Kind::Unspecified => (0.2 + 0.8 * object.confidence.clamp(0.0, 1.0)) as f32,
    };
    rgba(r, g, b, alpha)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::geometry::Vec3;
    use eh_contract::scene::{Relation, Source};
    use eh_contract::Stamp;

    fn node(name: &str, kind: Kind) -> SceneObject {
        SceneObject {
            r#ref: name.into(),
            kind,
            confidence: 0.5,
            ..SceneObject::default()
        }
    }

    #[test]
    fn each_message_is_whole_and_bounded() {
        let mut graph = SceneGraph::new("m", "map");
        graph.insert(
            SceneObject {
                outline: [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]
                    .map(|(x, y)| Vec3::new(x, y, 0.0))
                    .to_vec(),
                ..node("room", Kind::Room)
            },
            Stamp(1),
        );
        graph.insert(node("cup", Kind::Object), Stamp(1));
        graph.insert(node("table", Kind::Surface), Stamp(1));
        graph.relate(Relation {
            subject: "cup".into(),
            relation: RelationKind::On,
            object: "table".into(),
            confidence: 1.0,
            stamp: Stamp(1),
            source: Source::Perception,
        });
        let all = markers(&graph).markers;
        assert_eq!(all[0].action, Marker::DELETEALL);
        let of = |ns: &str| all.iter().filter(|m| m.ns == ns).count();
        assert_eq!(
            (of("outline"), of("object"), of("surface"), of("name")),
            (1, 1, 1, 3)
        );
        // A closed line, and one from the cup to the table.
        let points = |ns: &str| all.iter().find(|m| m.ns == ns).unwrap().points.len();
        assert_eq!((points("outline"), points("relations")), (4, 2));
        let mut ids: Vec<(&str, i32)> = all[1..].iter().map(|m| (m.ns.as_str(), m.id)).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for i in 0..5000 {
            graph.insert(node(&format!("box_{i}"), Kind::Object), Stamp(2));
        }
        assert!(markers(&graph).markers.len() <= MAX_MARKERS);
    }
}
