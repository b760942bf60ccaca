"""What tests of applications need; installed with the package."""
