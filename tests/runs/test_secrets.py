"""Values that may be secrets are in no recorded command."""

from hypothesis import given, strategies as st

from jcache.runs.secrets import HIDDEN, without_secrets

NAMES = st.sampled_from(
    ["--api-key", "--token", "-secret", "--db_password", "--wandb.api_key", "--HF-TOKEN", "--passwd"]
)
VALUES = st.text(alphabet="abcdefgh/=.:", min_size=8)


def test_examples() -> None:
    """Options and variables with key, token, secret or password in their names lose their values."""
    command = ["env", "API_KEY=abc", "train", "--api-key=x=y", "--steps", "3", "--token", "t0k", "--verbose", "--key"]
    assert without_secrets(command) == (
        "env", "API_KEY=…", "train", "--api-key=…", "--steps", "3", "--token", "…", "--verbose", "--key",
    )  # fmt: skip
    urls = ["--data=https://me:pw@host/x?sig=pw", '{"remote": "http://me:pw@host/x"}', "s3://bucket/x", "a@b?"]
    assert without_secrets(urls) == ("--data=https://…@host/x?…", '{"remote": "http://…@host/x"}', *urls[2:])
    assert without_secrets(["train", "--token", "--steps", "3"]) == ("train", "--token", "--steps", "3")


@given(NAMES, VALUES, st.lists(st.sampled_from(["--steps", "3", "run", "--lr=0.1"])), st.booleans())
def test_no_secret_stays(name: str, value: str, others: list[str], is_one_word: bool) -> None:
    """Whatever stands before, a value behind such a name is hidden, and nothing else is."""
    secret = [f"{name}={value}"] if is_one_word else [name, value]
    hidden = [f"{name}={HIDDEN}"] if is_one_word else [name, HIDDEN]
    assert list(without_secrets([*others, *secret, *others])) == [*others, *hidden, *others]
