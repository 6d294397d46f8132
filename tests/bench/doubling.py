"""A helper that doubles."""

from bench.helper import answer


def double(number):
    if number is None:
        raise ValueError("nothing cannot be doubled")
    return 2 * number


if __name__ == "__main__":
    answer(double)
