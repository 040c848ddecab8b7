"""The composition root: settings are read here, adapters are chosen here, `qanat` starts here."""
