"""`python -m qanat.app` is `qanat`, for environments without the console script."""

from qanat.app.main import main

main()
