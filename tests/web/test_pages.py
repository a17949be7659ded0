"""The pages in a real browser, over a store that the test moves."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.cli.stores import row
from tests.web.conftest import TOKEN, Site, Tab, wait_until
from tests.web.stores import ODD, filling, live, steps
from tidefill.jobs.row import Job, Pause
from tidefill.store.rows import add_job

FILLING, LIVE, FAILED, INDEX, NEW, NAMED_ODD = (f"{number:032x}" for number in (1, 3, 4, 6, 8, 9))


def test_the_bar_of_a_job_moves_without_a_reload(tab: Tab) -> None:
    page = tab.open(f"/job/{FILLING}")
    expect(page.locator("h1")).to_have_text("order_totals")
    _shows(page, 40)
    page.evaluate("window.same = true")
    before = page.locator(".segment i.covered").count()
    moved = filling("order_totals", 1, 0.9, time.time())
    tab.site.store.change(FILLING, lambda _: moved, steps(1, time.time())[0])
    _shows(page, 90)
    expect(page.locator(".figures")).to_contain_text("90 %")
    expect(page.locator(".column")).to_have_count(61)
    assert page.locator(".segment i.covered").count() == before == 9
    expect(page.locator(".segment i.reading")).to_have_count(1)
    assert page.evaluate("window.same") is True
    assert tab.errors == []


def test_pause_and_resume_by_a_click(tab: Tab) -> None:
    page = tab.open(f"/job/{FILLING}")
    page.get_by_role("button", name="Pause", exact=False).first.click()
    expect(page.locator(".told")).to_have_text("order_totals: asked to pause")
    wait_until(lambda: _row(tab.site).pause is Pause.ALL)
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_enabled()
    resume.click()
    wait_until(lambda: _row(tab.site).pause is Pause.NOTHING)
    page.get_by_role("button", name="Pause the fill").click()
    wait_until(lambda: _row(tab.site).pause is Pause.FILL)


def test_settings_and_cancel(tab: Tab) -> None:
    page = tab.open(f"/job/{FILLING}")
    page.get_by_label("Rate limit").fill("1500")
    page.get_by_label("Parallelism").fill("3")
    page.get_by_role("button", name="Set").click()
    wait_until(lambda: (_row(tab.site).settings.rate_limit, _row(tab.site).settings.parallelism) == (1500, 3))
    page.get_by_label("Parallelism").fill("9999")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".told.bad")).to_contain_text("parallelism is 9999")
    page.get_by_role("button", name="Cancel …").click()
    page.get_by_role("button", name="Keep it").click()
    assert not _row(tab.site).wants_end
    page.get_by_role("button", name="Cancel …").click()
    page.get_by_role("button", name="Yes, cancel it").click()
    wait_until(lambda: _row(tab.site).wants_end)


def test_names_and_texts_of_users_are_never_markup(tab: Tab) -> None:
    page = tab.open("/")
    expect(page.get_by_role("link", name=ODD)).to_be_visible()
    assert page.title() == "Jobs - Tidefill"
    page = tab.open(f"/job/{NAMED_ODD}")
    expect(page.locator("h1")).to_have_text(ODD)
    expect(page.locator(".events")).to_contain_text(ODD)
    assert page.locator("main script, main img").count() == 0
    page = tab.open("/graph")
    expect(page.get_by_role("link", name=ODD)).to_be_visible()
    blocked = "try { document.body.innerHTML = '<b>x</b>'; 'made markup' } catch (error) { error.name }"
    assert page.evaluate(blocked) == "TypeError", "the policy of the page forbids it"
    assert tab.errors == []


def test_a_wrong_token_sees_nothing(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    for path in ("/", "/?token=wrong", f"/job/{FILLING}", "/stream/jobs", "/metrics", "/static/jobs.js"):
        answer = page.goto(site.url(path))
        assert answer is not None
        assert answer.status == 403
        assert "order" not in page.content()
    page.goto(site.url(f"/?token={TOKEN}"))
    expect(page.get_by_role("link", name="order_totals")).to_be_visible()
    assert TOKEN not in page.url


def test_the_page_survives_a_restart_of_the_server(tab: Tab) -> None:
    page = tab.open(f"/job/{FILLING}")
    _shows(page, 40)
    page.evaluate("window.same = true")
    tab.site.stop()
    expect(page.locator("#trouble")).to_contain_text("does not answer")
    tab.site.store.change(FILLING, lambda _: filling("order_totals", 1, 0.7, time.time()))
    tab.site.start()
    _shows(page, 70)
    expect(page.locator("#trouble")).to_be_hidden()
    assert page.evaluate("window.same") is True, "nobody had to reload it"


def test_three_hundred_jobs_can_be_used(tab: Tab) -> None:
    now_s = time.time()
    with tab.site.store._writing() as connection:
        for number in range(100, 391):
            name = f"job {number}"
            add_job(connection, live(name, number, now_s) if number % 3 else row(name, number), "")
    page = tab.open("/")
    expect(page.locator("tbody tr")).to_have_count(300)
    page.keyboard.press("/")
    page.keyboard.type("job 21")
    expect(page.locator("tbody tr")).to_have_count(10)
    expect(page.locator(".summary")).to_contain_text("10 of 300 jobs")
    tab.site.store.change(f"{212:032x}", lambda job: replace(job, waiting="for rain", waits_for="TROUBLE"))
    expect(page.get_by_role("row", name="job 212")).to_contain_text("waits for for rain")
    page.get_by_label("Filter jobs").fill("")
    page.get_by_label("State").select_option("failed")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("State").select_option("")
    page.get_by_role("button", name="State").click()
    expect(page.locator("tbody tr").first).to_contain_text("clicks_per_day")
    assert tab.errors == []


def test_a_failure_an_index_and_a_plan(tab: Tab) -> None:
    page = tab.open(f"/job/{FAILED}")
    expect(page.locator(".failure")).to_contain_text("HISTORY_GONE")
    expect(page.locator(".failure")).to_contain_text("RESYNC JOB clicks_per_day builds it anew.")
    expect(page.locator("p.does")).to_contain_text("the figures are 1 h")
    page = tab.open(f"/job/{INDEX}")
    expect(page.locator(".ladder [aria-current=step]")).to_have_text("▶ merging")
    expect(page.locator("p.does")).to_contain_text("transaction 4711")
    page = tab.open(f"/job/{LIVE}")
    expect(page.locator(".tree > li > ul > li > ul > li")).to_have_count(2)
    expect(page.get_by_role("button", name="Cancel …")).to_be_disabled()


def test_the_graph_says_who_is_behind_whom(tab: Tab) -> None:
    page = tab.open("/graph")
    card = page.locator("article", has_text="totals_by_country")
    expect(card).to_contain_text("order_lines at version 10, 2 versions behind")
    expect(page.locator("article", has_text="/lake").or_(page.locator("article", has_text="tick 11"))).to_be_visible()
    expect(page.locator(".graph-lines path.behind")).not_to_have_count(0)


def test_no_runner_is_told(tab: Tab) -> None:
    page = tab.open("/")
    expect(page.locator("#runners")).to_have_text("● 1 runner")
    for job in tab.site.store.jobs():
        tab.site.store.change(job.id, lambda one: replace(one, lease=replace(one.lease, owner="")))
    expect(page.locator("#runners")).to_contain_text("no runner is alive")


def test_a_job_that_is_dropped(tab: Tab) -> None:
    page = tab.open(f"/job/{NEW}")
    tab.site.store.delete(NEW)
    expect(page.locator("#trouble")).to_contain_text("there is no such job")


@pytest.mark.full
def test_it_is_readable_at_every_width(tab: Tab) -> None:
    for width in (400, 800, 1600):
        tab.page.set_viewport_size({"width": width, "height": 800})
        for path in ("/", f"/job/{FILLING}", f"/job/{FAILED}", f"/job/{INDEX}", "/graph"):
            page = tab.open(path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, path)
    assert tab.errors == []


def _shows(page: Page, percent: int) -> None:
    bar = page.locator(".bar").first
    expect(bar).to_have_attribute("aria-valuenow", str(percent))
    expect(bar.locator("span")).to_have_attribute("style", f"width: {percent}%;")


def _row(site: Site) -> Job:
    found = site.store.job(FILLING)
    assert found is not None
    return found
