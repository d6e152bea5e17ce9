"""One GET again and again, for Locust."""

import os

from locust import FastHttpUser, task


class Get(FastHttpUser):
    """Asks without waiting."""

    @task
    def get(self) -> None:
        """One request; with TOWTANK_ONE it is the only one."""
        self.client.get("/")
        if "TOWTANK_ONE" in os.environ:
            self.environment.runner.quit()
