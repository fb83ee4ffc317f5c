//! The model that judges: its parameters and how it is asked.

use std::time::Duration;

use eh_evaluator::judges::{Answer, JudgesConfig, Question};
use eh_model_client::{
    AnswerFormat, Chat, Endpoint, ModelClient, ModelError, NamedPicture, PictureLimits, Retry,
    Secret,
};
use eh_ros_edge::params::{choice, integer, number, text};
use rclrs::Node;

use crate::views::Picture;
use crate::Error;

/// How the model is asked.
#[derive(Clone, Debug)]
pub struct ModelParameters {
    /// Where it is, with its limits.
    pub endpoint: Endpoint,
    /// What it is told to be.
    pub prompt: String,
    /// Limits of questions.
    pub judges: JudgesConfig,
}

impl ModelParameters {
    /// Declares its parameters. `wanted`: the judge needs them, so they are checked.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter, its value and the limit.
    pub(crate) fn declare(
        node: &Node,
        wanted: bool,
        max_views: usize,
        config_version: &str,
    ) -> Result<Self, Error> {
        let count = |name: &str, default: u32, least: i64, most: i64, what: &str| {
            integer(node, name, i64::from(default), least..=most, "", what)
                .map(|n| u32::try_from(n).unwrap_or(default))
        };
        let seconds = |name: &str, default: f64, least: f64, what: &str| {
            number(node, name, default, least..=3600.0, "s", what).map(Duration::from_secs_f64)
        };
        let url = text(
            node,
            "model.url",
            "",
            "Base address of an OpenAI-compatible endpoint; /chat/completions is appended. https needs a build with TLS, as scripts/setup makes it.",
        )?;
        let model = text(node, "model.name", "", "Name of the model.")?;
        let variable = text(
            node,
            "model.api_key_env",
            "",
            "Environment variable that holds the key. Empty: see model.api_key_file.",
        )?;
        let file = text(
            node,
            "model.api_key_file",
            "",
            "File that holds the key and nothing else. Empty: none is sent.",
        )?;
        let format = choice(
            node,
            "model.answer_format",
            AnswerFormat::JsonSchema.name(),
            &AnswerFormat::ALL.map(AnswerFormat::name),
            "How the form of its answer is handed over: json_schema, json_object, or text for endpoints that know neither.",
        )?;
        let own = text(
            node,
            "model.prompt",
            "",
            "What the model is told to be; the form of its answer is appended. Empty: the words of the package. Change config_version with it.",
        )?;
        let d = PictureLimits::default();
        let retry = Retry::default();
        let endpoint = Endpoint {
            key: None,
            answer_format: AnswerFormat::of(&format)?,
            temperature: number(
                node,
                "model.temperature",
                0.0,
                0.0..=2.0,
                "",
                "Its temperature; 0: the same words each time, as far as it can.",
            )?,
            max_tokens: count("model.max_tokens", 1000, 16, 100_000, "Most tokens of an answer.")?,
            timeout: seconds("model.timeout", 10.0, 0.1, "For one try.")?,
            budget: seconds(
                "model.budget",
                15.0,
                0.1,
                "For all tries and the waits between; without an answer by then the verdict is UNKNOWN.",
            )?,
            retry: Retry {
                tries: count("model.tries", retry.tries, 1, 20, "Tries of one question.")?,
                first_wait: seconds(
                    "model.first_wait",
                    retry.first_wait.as_secs_f64(),
                    0.0,
                    "Wait after the first try that failed; each further wait is twice as long …",
                )?,
                longest_wait: seconds(
                    "model.longest_wait",
                    retry.longest_wait.as_secs_f64(),
                    0.0,
                    "… up to this.",
                )?,
                ..retry
            },
            pictures: PictureLimits {
                max_edge: count(
                    "model.max_picture_edge",
                    d.max_edge,
                    16,
                    8192,
                    "Longer edge of a picture that is sent, in pixels; larger ones are made smaller.",
                )?,
                ..d
            },
            ..Endpoint::new(&url, &model)
        };
        let per_hour = count(
            "model.questions_per_hour",
            120,
            1,
            100_000,
            "Most questions in an hour; what is more is UNKNOWN.",
        )?;
        let mut this = ModelParameters {
            prompt: format!(
                "{} {}",
                if own.trim().is_empty() {
                    Question::SYSTEM
                } else {
                    own.trim()
                },
                Question::FORM
            ),
            judges: JudgesConfig {
                version: format!("{model} {config_version}"),
                max_views,
                questions_per_hour: usize::try_from(per_hour).unwrap_or(1),
            },
            endpoint,
        };
        if wanted {
            this.endpoint.key = Secret::find(&variable, &file)?;
            this.endpoint.check()?;
        }
        Ok(this)
    }

    /// The client; its thread begins.
    ///
    /// # Errors
    /// [`ModelError`].
    pub(crate) fn client(&self) -> Result<ModelClient, ModelError> {
        ModelClient::start(self.endpoint.clone())
    }
}

/// Asks the model. Whatever goes wrong is an answer, too.
pub(crate) async fn ask(
    client: &ModelClient,
    parameters: &ModelParameters,
    question: &Question,
    pictures: &[Picture],
) -> Answer {
    let shown = question.views.iter().filter_map(|view| {
        let picture = pictures.iter().find(|p| p.view == *view)?;
        Some(NamedPicture {
            name: view.id(),
            image: picture.image.clone(),
        })
    });
    let chat = Chat {
        system: parameters.prompt.clone(),
        text: question.prompt(),
        pictures: shown.collect(),
        schema: Some(("verdict".into(), Question::schema())),
    };
    match client.ask(chat).await {
        Ok(text) => Answer::Text(text),
        Err(error) => Answer::None(error.to_string()),
    }
}
