//! Inputs of one shape in two sizes: what a reader spends on the larger one may grow with its length, and no faster.

/// A text that can be made as long as a test needs it.
pub struct Shape {
    pub(crate) name: &'static str,
    make: Box<dyn Fn(usize) -> Vec<u8>>,
}

impl Shape {
    /// The shape that `make` makes, of about so many bytes.
    pub fn made(name: &'static str, make: impl Fn(usize) -> Vec<u8> + 'static) -> Self {
        Self { name, make: Box::new(make) }
    }

    /// `head`, then `each` again and again with `{n}` counted up, then `tail`.
    pub fn repeated(name: &'static str, head: &str, each: &'static str, tail: &'static str) -> Self {
        let head = head.to_owned();
        Self::made(name, move |bytes| {
            let mut text = head.clone();
            let mut n = 0_u32;
            while text.len() + tail.len() < bytes {
                text.push_str(&each.replace("{n}", &n.to_string()));
                n += 1;
            }
            text.push_str(tail);
            text.into_bytes()
        })
    }

    pub(crate) fn of(&self, bytes: usize) -> Vec<u8> {
        (self.make)(bytes)
    }
}
