"""HTTP beside the webhooks: /ready for the kubelet, /metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from upgrader.in_cluster.guard.runtime.metrics import CONTENT_TYPE, Metrics

__all__ = ["Question", "status_app"]

Question = Callable[[], str]
"""Why something isn't ready; "" when it is."""


def status_app(questions: Mapping[str, Question], metrics: Metrics) -> web.Application:
    """`questions`: by name. Ready (200) only when all are; else 503, with the reasons, one a line."""

    async def ready(_: web.Request) -> web.Response:
        reasons = [f"{name}: {reason}" for name, ask in questions.items() if (reason := ask())]
        return web.Response(text="\n".join(reasons or ["ready"]) + "\n", status=503 if reasons else 200)

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/ready", ready)
    app.router.add_get("/metrics", show)
    return app
