//! Named pictures of the robot's cameras, for judges that look: the newest of each view.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use eh_contract::Stamp;
use eh_evaluator::judges::NamedView;
use eh_evaluator::EvaluatorError;
use eh_model_client::{PictureLimits, RawImage};
use eh_ros_edge::params::texts;
use eh_ros_edge::{qos, Streams};
use parking_lot::Mutex;
use rclrs::{log_warn, IntoPrimitiveOptions, Node, RclrsError, ToLogParams};
use ros_env::sensor_msgs::msg::Image;

use crate::node::Shared;
use crate::samples::stamp_or;
use crate::Error;

/// Most views.
const MAX_VIEWS: usize = 8;

/// Longest name of a view \[bytes\].
const MAX_NAME: usize = 32;

/// Time between two log lines of one view.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// A view as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewTopic {
    /// Its name.
    pub name: String,
    /// Topic of sensor_msgs/Image.
    pub topic: String,
}

/// Declares the views, the most important first.
///
/// # Errors
/// [`enum@Error`] that names what is wrong.
pub(crate) fn declare(node: &Node) -> Result<Vec<ViewTopic>, Error> {
    let given = texts(
        node,
        "views",
        &["head: camera/image_raw"],
        "Views that a model is shown, the most important first, each as \"name: topic\" of sensor_msgs/Image. Subscribed to only where a model judges.",
    )?;
    parse(&given).map_err(|reason| {
        EvaluatorError::Config {
            field: "views",
            reason,
        }
        .into()
    })
}

fn parse(given: &[String]) -> Result<Vec<ViewTopic>, String> {
    if given.len() > MAX_VIEWS {
        return Err(format!(
            "there are {}, the limit is {MAX_VIEWS}",
            given.len()
        ));
    }
    let mut views: Vec<ViewTopic> = Vec::new();
    for text in given {
        let (name, topic) = text
            .split_once(':')
            .map(|(n, t)| (n.trim(), t.trim()))
            .filter(|(n, t)| !n.is_empty() && !t.is_empty())
            .ok_or_else(|| format!("\"{text}\" is not of the form \"name: topic\""))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.len() > MAX_NAME || !name.chars().all(plain) {
            return Err(format!(
                "the name \"{name}\" has to be letters, digits and _, at most {MAX_NAME}"
            ));
        }
        if views.iter().any(|v| v.name == name) {
            return Err(format!("the name {name} is there twice"));
        }
        views.push(ViewTopic {
            name: name.into(),
            topic: topic.into(),
        });
    }
    Ok(views)
}

/// A picture that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// Which view, when, from where.
    pub(crate) view: NamedView,
    /// The image.
    pub(crate) image: Arc<RawImage>,
}

/// The newest picture of each view.
#[derive(Debug, Default)]
pub(crate) struct Views {
    newest: Mutex<Vec<Option<Picture>>>,
}

impl Views {
    /// What there is, the most important first.
    pub(crate) fn pictures(&self) -> Vec<Picture> {
        self.newest.lock().iter().flatten().cloned().collect()
    }

    /// Whether each view has a picture from after a time.
    pub(crate) fn all_after(&self, time: Stamp) -> bool {
        self.newest
            .lock()
            .iter()
            .all(|p| p.as_ref().is_some_and(|p| p.view.stamp > time))
    }

    fn keep(&self, index: usize, picture: Picture) {
        if let Some(slot) = self.newest.lock().get_mut(index) {
            *slot = Some(picture);
        }
    }
}

/// Subscribes to all views.
pub(crate) fn subscribe(
    shared: &Arc<Shared>,
    streams: &Streams,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let topics = &shared.parameters.views;
    *shared.views.newest.lock() = vec![None; topics.len()];
    let mut handles: Vec<Box<dyn Any>> = Vec::new();
    for (index, view) in topics.iter().cloned().enumerate() {
        let take = shared.clone();
        let options = view.topic.clone();
        let subscription = streams.create_subscription::<Image, _>(
            options.as_str().qos(qos::sensor_data()),
            move |message: Image| {
                let stamp = stamp_or(&message.header.stamp, take.now());
                match picture(
                    message,
                    &view,
                    stamp,
                    &take.parameters.model.endpoint.pictures,
                ) {
                    Ok(picture) => take.views.keep(index, picture),
                    Err(error) => log_warn!(
                        take.node.logger().throttle(LOG_PERIOD),
                        "a picture of the view {} was dropped: {error}",
                        view.name
                    ),
                }
            },
        )?;
        handles.push(Box::new(subscription));
    }
    Ok(handles)
}

fn picture(
    message: Image,
    view: &ViewTopic,
    stamp: Stamp,
    limits: &PictureLimits,
) -> Result<Picture, String> {
    let image = RawImage {
        width: message.width,
        height: message.height,
        encoding: message.encoding,
        step: message.step,
        data: message.data,
    };
    image.check(limits).map_err(|e| e.to_string())?;
    Ok(Picture {
        view: NamedView {
            name: view.name.clone(),
            stamp,
            source: view.topic.clone(),
        },
        image: Arc::new(image),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ros_env::std_msgs::msg::Header;

    fn of(given: &[&str]) -> Result<Vec<ViewTopic>, String> {
        parse(&given.iter().map(|s| (*s).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn views_have_names_of_their_own() {
        let views = of(&["head: camera/image_raw", "hand:/robot/hand/image"]).unwrap();
        assert_eq!(views[1].topic, "/robot/hand/image");
        assert_eq!(of(&[]).unwrap(), []);
        for (bad, why) in [
            (&["camera/image_raw"][..], "name: topic"),
            (&["head:"], "name: topic"),
            (&["my head: x"], "letters"),
            (&["a: x", "a: y"], "twice"),
            (&["a: x"; 9], "limit is 8"),
        ] {
            let error = of(bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_image_with_a_wrong_size_is_no_picture() {
        let view = ViewTopic {
            name: "head".into(),
            topic: "t".into(),
        };
        let message = |step: u32, encoding: &str| Image {
            header: Header::default(),
            height: 2,
            width: 2,
            encoding: encoding.into(),
            is_bigendian: 0,
            step,
            data: vec![0; 12],
        };
        let limits = PictureLimits::default();
        let kept = picture(message(6, "rgb8"), &view, Stamp(1), &limits).unwrap();
        assert_eq!((kept.view.name.as_str(), kept.image.width), ("head", 2));
        assert!(picture(message(7, "rgb8"), &view, Stamp(1), &limits).is_err());
        assert!(picture(message(6, "32FC1"), &view, Stamp(1), &limits).is_err());
    }
}
