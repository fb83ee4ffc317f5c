//! Asks a language or vision model behind an OpenAI-compatible endpoint (`/chat/completions`), with pictures and a
//! JSON schema for the answer, and one that turns texts into vectors (`/embeddings`).
//!
//! A model answers late, wrongly or not at all. So everything is bounded by data: how long one try and all tries
//! together take, how often it is tried and after which waits, how large pictures, request and answer are, how many
//! questions wait. Whatever goes wrong is a [`ModelError`] in words for people; nothing here decides anything.
//!
//! HTTP runs on a thread of its own ([`ModelClient`]), which ends with the client. Whoever asks gets a future for any
//! executor, and dropping it ends the question. Redirections are not followed and proxies of the environment not
//! used: the key goes to the address that was given and nowhere else, and it is in no log.
//!
//! | module | what it holds |
//! |---|---|
//! | [`endpoint`] | where the model is, its key, limits, waits between tries |
//! | [`chat`] | the question as a request, the answer out of the response |
//! | [`embeddings`] | texts as a request, their vectors out of the response |
//! | [`picture`] | images of cameras: checked, made smaller, JPEG |
//! | [`client`] | the thread that speaks HTTP |
//! | [`error`] | what went wrong |
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod chat;
pub mod client;
pub mod embeddings;
pub mod endpoint;
pub mod error;
pub mod picture;

pub use chat::{AnswerFormat, Chat};
pub use client::ModelClient;
pub use endpoint::{Endpoint, Retry, Secret};
pub use error::ModelError;
pub use picture::{NamedPicture, PictureError, PictureLimits, RawImage};
