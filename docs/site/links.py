"""Links from docs/ to other files of the repository lead to its host, because the site has only docs/."""

import os
import re

LINK = re.compile(r"(\]\()(\.\./[^)\s#]*)")


def on_page_markdown(markdown, page, config, files):
    def replace(match):
        path = os.path.normpath(os.path.join("docs", os.path.dirname(page.file.src_uri), match[2]))
        if path.startswith("docs/"):
            return match[0]
        return f"{match[1]}{config.repo_url}/blob/main/{path}"

    return LINK.sub(replace, markdown)
