//! Policies in a database: made, swapped, obeyed, recorded, and outlived where they are hostile.

use super::*;

mod hostile;
mod policies;
mod recording;
mod swap;
mod worlds;
