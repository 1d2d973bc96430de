from program import slug


def test_one_word():
    assert slug("python") == "python"


def test_two_words():
    assert slug("good day") == "good-day"


def test_case():
    assert slug("PyPI") == "pypi"


def test_signs():
    assert slug("  What, again?! ") == "what-again"
