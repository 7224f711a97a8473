"""A run page while things happen: without a socket, after an absence, while the answer comes, in others' hands."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, WebSocketRoute, expect

from apps.accounts.models import Project, User
from apps.accounts.services import user_create
from apps.core.evidence.events import Event, ProgressReported, RunStarted, StepStarted
from apps.core.evidence.plan import Question
from apps.imagery.models import Scene
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import event_append, run_execute_now, run_start
from tests.browser.accessible import axe_findings
from tests.browser.conftest import PASSPHRASE
from tests.stack import LiveStack

pytestmark = pytest.mark.browser

SOON = 60_000
SignIn = Callable[[Any], None]
Answered = Callable[..., Run]

# What the page shows of the run, without what a browser or the person's hand adds (focus order, open tabs, csrf, map tiles).
SHOWN = """
() => {
  const tidy = (element) => {
    const copy = element.cloneNode(true);
    copy.querySelectorAll("input[name=csrfmiddlewaretoken], .mapbox, [data-island]").forEach((part) => part.remove());
    for (const part of copy.querySelectorAll(".st")) for (const name of ["aria-current", "tabindex"]) part.removeAttribute(name);
    for (const part of [copy, ...copy.querySelectorAll("*")]) {
      if (!part.matches(".panelbox, .scroll, .tbl")) continue;
      for (const name of ["tabindex", "role", "aria-label"]) part.removeAttribute(name);
    }
    return copy.outerHTML.replace(/\\s+/g, " ").replace(/ class=""/g, "");
  };
  const config = document.querySelector("#map-config");
  return [tidy(document.querySelector("aside.wr")), tidy(document.querySelector("#run-centre")), config.textContent];
}
"""


def shown(page: Page) -> list[str]:
    found: list[str] = page.evaluate(SHOWN)
    return found


def equals_a_fresh_load(page: Page, context: BrowserContext) -> None:
    """The page as it became, event by event, and the page as it is loaded now, are the same text."""
    page.wait_for_load_state("networkidle")
    fresh = context.new_page()
    fresh.goto(page.url)
    fresh.wait_for_load_state("networkidle")
    assert shown(page) == shown(fresh)
    fresh.close()


def elsewhere(work: Callable[[], Any]) -> Any:
    """In a thread with a database session of its own, as a worker has: hints are sent from there (here, the driver's event
    loop stands in the way).
    """

    def call() -> Any:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def waiting_run(user: User, scene: Scene, text: str = "How much water is there in km2?") -> Run:
    return run_start(user=user, project=scene.project, text=text, scenes=[scene], enqueue=False)


def test_without_a_socket_the_page_polls_says_so_and_ends_the_same(
    page: Page, context: BrowserContext, analyst: User, scene: Scene, sign_in: SignIn
) -> None:
    sign_in(analyst)
    run = waiting_run(analyst, scene)
    page.route_web_socket(re.compile("/ws/"), lambda socket: socket.close())
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#live-state")).to_contain_text("LIVE_OFF")
    assert run_execute_now(run_id=run.pk)
    expect(page.locator("#answer .a1")).to_contain_text("0.86", timeout=20_000)
    expect(page.locator("aside.wr[data-live-done]")).to_be_attached(timeout=20_000)
    expect(page.locator("#run-centre[data-live-done]")).to_be_attached(timeout=20_000)
    equals_a_fresh_load(page, context)


def test_150_events_while_away_cost_few_fetches_and_leave_the_same_page(
    page: Page, context: BrowserContext, analyst: User, scene: Scene, sign_in: SignIn
) -> None:
    sign_in(analyst)
    run = waiting_run(analyst, scene)
    links: list[WebSocketRoute] = []
    is_cut = [False]

    def relay(socket: WebSocketRoute) -> None:
        if is_cut[0]:
            socket.close()
            return
        socket.connect_to_server()
        links.append(socket)

    page.route_web_socket(re.compile("/ws/"), relay)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#live-state")).to_contain_text("Live")
    question = Question.model_validate(run.question)
    append(run, RunStarted(at=timezone.now(), run_id=str(run.pk), question=question, seed=1))
    append(run, StepStarted(at=timezone.now(), step=1, attempt=1, tool="perceive", arguments={}, parents=(), call_key="away"))
    expect(page.locator("aside.wr[data-seq='2']")).to_be_attached(timeout=20_000)

    # the tab is put away and its connection falls
    page.evaluate("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true})")
    is_cut[0] = True
    for link in links:
        link.close()
    fetches: list[str] = []
    page.on("request", lambda request: fetches.append(request.url) if f"/runs/{run.pk}/rail/" in request.url else None)
    append(
        run,
        *(ProgressReported(at=timezone.now(), step=1, done=n, total=200, message=f"block {n}") for n in range(1, 151)),
    )
    # one look when the first reconnect fails, then a hidden page is silent
    is_cut[0] = False
    page.evaluate("delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("aside.wr[data-seq='152']")).to_be_attached(timeout=20_000)
    expect(page.locator("#answer")).to_contain_text("150 of 200")
    expect(page.locator("#live-state")).to_contain_text("Live", timeout=20_000)
    expect(page.locator("#run-centre[data-seq='152']")).to_be_attached()
    assert len(fetches) <= 12, f"150 events cost {len(fetches)} fetches"
    equals_a_fresh_load(page, context)


def append(run: Run, *events: Event) -> None:
    def all_of_them() -> None:
        for event in events:
            event_append(run_id=run.pk, event=event)

    elsewhere(all_of_them)


def test_the_answer_area_does_not_jump_while_the_run_goes_on(
    page: Page, live_stack: LiveStack, analyst: User, scene: Scene, sign_in: SignIn
) -> None:
    """Layout shift as browsers measure it, from the queued page to the answer."""
    sign_in(analyst)
    run = waiting_run(analyst, scene)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/runs/{run.pk}/")
    page.wait_for_load_state("networkidle")
    page.evaluate(
        """() => { window.shifts = []; new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.shifts.push(
        [entry.value, entry.sources.map((source) => source.node?.className ?? source.node?.nodeName)]))
        ).observe({ type: "layout-shift", buffered: false }); }"""
    )
    top = page.locator("#tab-trace").bounding_box()
    assert elsewhere(lambda: run_execute_now(run_id=run.pk))
    expect(page.locator("#answer .a1")).to_contain_text("0.86", timeout=20_000)
    expect(page.locator("aside.wr[data-live-done]")).to_be_attached(timeout=20_000)
    after = page.locator("#tab-trace").bounding_box()
    assert top is not None and after is not None
    assert after["y"] == pytest.approx(top["y"], abs=2)
    shifts = page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < 0.05, shifts


def test_a_half_typed_question_survives_what_comes_in(page: Page, analyst: User, scene: Scene, sign_in: SignIn) -> None:
    sign_in(analyst)
    run = waiting_run(analyst, scene)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#live-state")).to_contain_text("Live")
    page.get_by_role("tab", name="Ask").click()
    page.get_by_label("Ask about the same imagery").fill("How many hec")
    page.locator("#id_region").fill("POLYGON ((")
    page.get_by_label("Ask about this map").fill("and")
    page.get_by_role("tab", name="Plan").click()
    assert elsewhere(lambda: run_execute_now(run_id=run.pk))
    expect(page.locator("#answer .a1")).to_contain_text("0.86", timeout=20_000)
    expect(page.get_by_role("tab", name="Plan")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Ask").click()
    expect(page.get_by_label("Ask about the same imagery")).to_have_value("How many hec")
    expect(page.locator("#id_region")).to_have_value("POLYGON ((")
    expect(page.get_by_label("Ask about this map")).to_have_value("and")


def test_what_is_anothers_answers_404_and_closes_the_socket(
    page: Page, analyst: User, project: Project, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("How much water is there in km2?")
    state = run_state(run.pk)
    layers = [ref for held in state.observations.values() for ref in held.observation.result.layers]
    observation = next(iter(state.observations))
    scene = run.scenes.get()
    paths = [
        f"/runs/{run.pk}/", f"/runs/{run.pk}/rail/", f"/runs/{run.pk}/map/", f"/runs/{run.pk}/report/",
        f"/runs/{run.pk}/report/?as=json", f"/observations/{observation}/", f"/observations/{observation}/panel/",
        f"/imagery/{scene.pk}/", f"/imagery/{scene.pk}/thumbnail.png", f"/imagery/{scene.pk}/card.png",
        f"/imagery/{scene.pk}/preview.png", f"/tiles/scenes/{scene.pk}/13/4068/2744.png", f"/projects/{project.pk}/",
        f"/tiles/layers/{layers[0].artifact}/13/4068/2744.png", f"/tiles/layers/{layers[0].artifact}/legend.json",
        f"/artifacts/{layers[0].artifact}", f"/artifacts/{scene.original_id}", f"/api/v1/runs/{run.pk}/",
        f"/api/v1/runs/{run.pk}/events/", f"/api/v1/scenes/{scene.pk}/",
    ]  # fmt: skip
    dial = """(path) => new Promise((resolve) => {
        const socket = new WebSocket(location.origin.replace("http", "ws") + path);
        const heard = [];
        socket.onmessage = (event) => { heard.push(event.data); socket.close(1000); };
        socket.onclose = (event) => resolve({ code: event.code, heard });
    })"""
    sign_in(analyst)
    page.goto("/account/")
    assert {path: page.request.get(path).status for path in paths} == dict.fromkeys(paths, 200)
    mine = page.evaluate(dial, f"/ws/runs/{run.pk}/")
    assert json.loads(mine["heard"][0]) == {"seq": run.last_seq}

    sign_in(user_create(username="stranger", password=PASSPHRASE))
    page.goto("/account/")
    assert {path: page.request.get(path).status for path in paths} == dict.fromkeys(paths, 404)
    assert page.evaluate(dial, f"/ws/runs/{run.pk}/") == {"code": 4404, "heard": []}
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_text("NOT_FOUND")).to_be_visible()
    verdict = page.request.post(f"/observations/{observation}/verdict/", form={"value": "accept"}, headers=csrf(page))
    assert verdict.status == 404

    page.context.clear_cookies()
    assert page.request.get(f"/runs/{run.pk}/", max_redirects=0).status == 302


def csrf(page: Page) -> dict[str, str]:
    headers: dict[str, str] = json.loads(page.locator("body").get_attribute("hx-headers") or "{}")
    return headers | {"Referer": page.url, "HX-Request": "true"}


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_run_and_observation_are_accessible_and_fit_at_every_width(
    context: BrowserContext, analyst: User, answered: Answered, scene: Scene, sign_in: SignIn, theme: Any
) -> None:
    from apps.review.services import verdict_give

    judged = answered("How much water is there in km2?")
    ids = list(run_state(judged.pk).observations)
    verdict_give(user=analyst, observation_id=ids[0], value="reject", reason="wrong_place", enqueue=False)
    assert run_execute_now(run_id=judged.pk)
    plain = answered("How many hectares have NDVI above 0.4?")
    abstained = answered("Will it rain tomorrow?")
    waiting = waiting_run(analyst, scene)
    sign_in(analyst)
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    addresses = [f"/runs/{run.pk}/" for run in (judged, plain, abstained, waiting)]
    addresses += [f"/observations/{ids[0]}/", f"/observations/{ids[1]}/", f"/runs/{judged.pk}/report/"]
    problems = []
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for address in addresses:
            page.goto(address)
            page.locator("#map[data-ready]").wait_for(state="attached")
            if width != 1024:  # between the two nothing new is drawn, only laid out
                problems += [f"{width} {address} {problem}" for problem in axe_findings(page)]
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                problems.append(f"{width} {address} scrolls sideways")
    assert problems == []
    assert errors == []
