//! Sentences, links and pieces of code of a document.

/// Lines of a document that are in no block of code.
fn lines_outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().map(str::trim).map(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code { "" } else { line }
    })
}

/// The text of an item of a list.
fn list_item(line: &str) -> Option<&str> {
    let (mark, rest) = line.split_once(' ')?;
    let number = mark.strip_suffix('.').unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number || ["-", "*", "+"].contains(&mark)).then_some(rest)
}

/// Paragraphs and items of lists; headings and tables are none.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in lines_outside_code(text) {
        let item = list_item(line);
        let is_prose = !line.is_empty() && !line.starts_with(['#', '|']);
        if (!is_prose || item.is_some())
            && paragraphs.last().is_some_and(|paragraph| !paragraph.is_empty())
        {
            paragraphs.push(String::new());
        }
        if let Some(last) = paragraphs.last_mut().filter(|_| is_prose) {
            last.push_str(item.unwrap_or(line));
            last.push(' ');
        }
    }
    paragraphs
}

/// Sentences of a document, each as its words. A piece of code is one word, the target of a link
/// none.
pub fn sentences(text: &str) -> Vec<Vec<String>> {
    let mut sentences = Vec::new();
    for paragraph in paragraphs(text) {
        let parts = paragraph.split('`').enumerate();
        let prose: String =
            parts.map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect();
        let mut links = prose.split("](");
        let mut plain = links.next().unwrap_or_default().to_owned();
        for rest in links {
            plain.push(']');
            plain.push_str(rest.split_once(')').map_or(rest, |(_, after)| after));
        }
        let mut words: Vec<String> = Vec::new();
        for word in plain.split_whitespace() {
            if word.contains(char::is_alphanumeric) {
                words.push(word.to_owned());
            }
            let end = word.trim_end_matches([')', ']', '"', '\'', '*', '_']);
            let is_short_form = ["e.g.", "i.e."].contains(&end);
            if end.ends_with(['.', '!', '?']) && !is_short_form && !words.is_empty() {
                sentences.push(std::mem::take(&mut words));
            }
        }
        if !words.is_empty() {
            sentences.push(words);
        }
    }
    sentences
}

/// Targets of links, and pieces of code, of a document.
pub fn links_and_code(text: &str) -> (Vec<String>, Vec<String>) {
    let text: String = lines_outside_code(text).flat_map(|line| [line, "\n"]).collect();
    let (code, prose): (Vec<_>, Vec<_>) =
        text.split('`').enumerate().partition(|(at, _)| at % 2 == 1);
    let prose: String = prose.into_iter().map(|(_, part)| part).collect();
    let links = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let links = links.map(|(target, _)| target.to_owned()).collect();
    (links, code.into_iter().map(|(_, part)| part.to_owned()).collect())
}
