//! Enums whose variants are words, in JSON, in keys and on command lines.

/// Gives an enum of words (`strum::IntoStaticStr` and `strum::VariantArray`) its word and its reader. `$error` says of a
/// text that is none of them what is allowed, and has its first 40 characters.
macro_rules! words {
    ($name:ident, $error:ident, $message:literal) => {
        impl $name {
            /// The word for it.
            pub fn word(self) -> &'static str {
                self.into()
            }
        }

        #[doc = concat!("A text that is no word of [`", stringify!($name), "`].")]
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error($message)]
        pub struct $error(String);

        impl std::str::FromStr for $name {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                let found = <Self as strum::VariantArray>::VARIANTS.iter().find(|one| one.word() == text);
                found.copied().ok_or_else(|| $error(text.chars().take(40).collect()))
            }
        }
    };
}

pub(crate) use words;
