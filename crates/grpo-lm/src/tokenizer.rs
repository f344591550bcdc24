//! Text to tokens and back.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// A tokenizer of a model. Cheap to clone.
///
/// ```
/// use grpo_lm::tokenizer::Tokenizer;
///
/// let json = r#"{
///     "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
///     "normalizer": null, "pre_tokenizer": {"type": "Split", "pattern": {"String": ""},
///         "behavior": "Isolated", "invert": false},
///     "post_processor": null, "decoder": {"type": "Fuse"},
///     "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"}
/// }"#;
/// let tokenizer = Tokenizer::from_json(json)?;
/// assert_eq!(tokenizer.encode("abz")?, [0, 1, 2]);
/// assert_eq!(tokenizer.decode(&[1, 0])?, "ba");
/// # Ok::<(), grpo_lm::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    tokenizer: tokenizers::Tokenizer,
    /// The file's own bytes, where it came from `tokenizer.json`.
    json: Option<Vec<u8>>,
    /// `tokenizer_config.json`, where there was one.
    config: Map<String, Value>,
    vocab_size: usize,
    prefix: Option<u32>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Tokenizer(error.to_string())
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] says what is wrong with them.
    pub fn from_json(json: impl Into<Vec<u8>>) -> Result<Self> {
        let json = json.into();
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(&json).map_err(failed)?;
        // Settings of somebody's training run; a prompt is never cut or padded silently.
        tokenizer.with_truncation(None).map_err(failed)?;
        tokenizer.with_padding(None);
        // What the file's own post-processor puts before a text, if it is a single token.
        let alone = tokenizer.encode("", true).map_err(failed)?;
        let prefix = match alone.get_ids() {
            [one] => Some(*one),
            _ => None,
        };
        Ok(Self::new(tokenizer, Some(json), prefix))
    }

    pub(crate) fn new(tokenizer: tokenizers::Tokenizer, json: Option<Vec<u8>>, prefix: Option<u32>) -> Self {
        // Ids may have holes, so this is not the number of tokens.
        let highest = tokenizer.get_vocab(true).into_values().max();
        let vocab_size = highest.map_or(0, |id| id as usize + 1);
        Self(Arc::new(Inner { tokenizer, json, config: Map::new(), vocab_size, prefix }))
    }

    /// Adds `tokenizer_config.json`; its `add_bos_token` has the last word on the token that begins a text.
    pub(crate) fn with_config(self, config: Map<String, Value>) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        match config.get("add_bos_token").and_then(Value::as_bool) {
            Some(true) => {
                let bos = config.get("bos_token").and_then(crate::chat::token_text);
                inner.prefix = bos.and_then(|text| inner.tokenizer.token_to_id(text));
            }
            Some(false) => inner.prefix = None,
            None => {}
        }
        inner.config = config;
        Self(Arc::new(inner))
    }

    /// `tokenizer_config.json` as it was read; empty if there was none.
    pub(crate) fn config(&self) -> &Map<String, Value> {
        &self.0.config
    }

    /// The tokens of a text.
    ///
    /// Special tokens written out in the text (`<|im_start|>`) become their single token, so text from
    /// outside can contain them: check it if that matters. Nothing is added, with one exception: a model
    /// that was trained to see a begin-of-text token (Llama 3) gets it in front, unless the text already
    /// begins with it, as a rendered chat template does. Nothing is cut.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the tokenizer fails on the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.0.tokenizer.encode_fast(text, false).map_err(failed)?;
        let ids = encoding.get_ids();
        Ok(match self.0.prefix {
            Some(prefix) if ids.first() != Some(&prefix) => core::iter::once(prefix).chain(ids.iter().copied()).collect(),
            _ => ids.to_vec(),
        })
    }

    /// The tokens of the continuation of a text: as [`encode`](Self::encode), never with a token in front.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the tokenizer fails on the text.
    pub fn encode_continuation(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.0.tokenizer.encode_fast(text, false).map_err(failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of some tokens, special tokens left out. Bytes that are no UTF-8 become `U+FFFD`.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the tokenizer fails on them.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        self.0.tokenizer.decode(tokens, true).map_err(failed)
    }

    /// The text of some tokens, special tokens written out.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the tokenizer fails on them.
    pub fn decode_with_special(&self, tokens: &[u32]) -> Result<String> {
        self.0.tokenizer.decode(tokens, false).map_err(failed)
    }

    /// A text without the special tokens that are written out in it, also those that appear when others are taken out: what is left cannot
    /// play another role in a chat.
    #[must_use]
    pub fn without_special<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let added = self.0.tokenizer.get_added_tokens_decoder();
        let special: Vec<&str> = added.values().filter(|t| t.special && !t.content.is_empty()).map(|t| t.content.as_str()).collect();
        if !special.iter().any(|token| text.contains(token)) {
            return Cow::Borrowed(text);
        }
        let mut kept = String::with_capacity(text.len());
        for character in text.chars() {
            kept.push(character);
            // The longest, where one ends with another.
            if let Some(token) = special.iter().filter(|token| kept.ends_with(**token)).max_by_key(|token| token.len()) {
                kept.truncate(kept.len() - token.len());
            }
        }
        Cow::Owned(kept)
    }

    /// The id of a token, written as in the vocabulary.
    #[must_use]
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.tokenizer.token_to_id(token)
    }

    /// A token, written as in the vocabulary.
    #[must_use]
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.0.tokenizer.id_to_token(id)
    }

    /// One more than the highest id. A model's embedding may have more rows.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    /// The token that [`encode`](Self::encode) puts before a text, if the model wants one.
    #[must_use]
    pub fn prefix_token(&self) -> Option<u32> {
        self.0.prefix
    }

    /// The bytes of a `tokenizer.json`: the very bytes it came from, if it came from one.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if it cannot be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        match &self.0.json {
            Some(bytes) => Ok(bytes.clone()),
            None => self.0.tokenizer.to_string(true).map(String::into_bytes).map_err(failed),
        }
    }
}

/// Decodes a completion token by token, as a sampler needs it to look for stop strings.
///
/// A character whose bytes are spread over several tokens appears with the last of them. Special tokens
/// are left out. One stream serves one completion, and one tokenizer.
///
/// # Source
///
/// The windowed decoding of the `tokenizers` crate: only the last few tokens are decoded at a step.
#[derive(Debug, Clone, Default)]
pub struct DecodeStream {
    tokens: Vec<u32>,
    prefix: String,
    prefix_index: usize,
    text: String,
}

impl DecodeStream {
    /// An empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next token; returns what it adds to the text, which may be nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the tokenizer fails on the token.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<&str> {
        let before = self.text.len();
        let step = tokenizers::step_decode_stream(
            &*tokenizer.0.tokenizer,
            vec![token],
            true,
            &mut self.tokens,
            &mut self.prefix,
            &mut self.prefix_index,
        );
        if let Some(more) = step.map_err(failed)? {
            self.text.push_str(&more);
        }
        Ok(&self.text[before..])
    }

    /// The whole text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
