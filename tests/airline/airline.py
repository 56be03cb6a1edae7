"""An airline: its database and what its desk can do with it.

The rules are those that can be read from the published policy, the tools' schemas and the recorded results. Refunds
are promised, not booked: a cancelled reservation lists them, and seats and cards stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from concertino.errors import ToolError

from . import arithmetic

Json = dict[str, Any]

NOW = "2024-05-15T15:00:00"
FRESH_IDS = ("HATHAT", "HATHAU", "HATHAV")
BAG = 50
INSURANCE = 30
_CARD = ("source", "id", "brand", "last_four", "amount")
_LEG = ("flight_number", "origin", "destination", "date", "price")


def opened(database: Json) -> Json:
    """The published *database* in the form of the recorded results: fields in one order, a status for each reservation,
    balances with cents."""
    for user in database["users"].values():
        for method in user["payment_methods"].values():
            if "amount" in method:
                method["amount"] = float(method["amount"])
        cards = user["payment_methods"]
        user["payment_methods"] = {name: _ordered(card, _CARD) for name, card in cards.items()}
    for reservation in database["reservations"].values():
        reservation["flights"] = [_ordered(leg, _LEG) for leg in reservation["flights"]]
        reservation["status"] = None
    return database


def _ordered(fields: Json, names: Iterable[str]) -> Json:
    return {name: fields[name] for name in names if name in fields}


class Table(dict[str, Json]):
    """Rows that are copied when they are first looked up: airlines share those that none of them changes."""

    def __init__(self, rows: Json) -> None:
        super().__init__(rows)
        self._shared = set(rows)

    def __getitem__(self, name: str) -> Json:
        if name in self._shared:
            self._shared.remove(name)
            self[name] = copy.deepcopy(super().__getitem__(name))
        return super().__getitem__(name)


class Airline:
    """One airline. A method with the name of a tool is that tool; a refusal is a `ToolError` and changes nothing."""

    def __init__(self, database: Json) -> None:
        self.database = {name: Table(rows) for name, rows in database.items()}
        self.flights = self.database["flights"]
        self.users = self.database["users"]
        self.reservations = self.database["reservations"]

    # -- looking -------------------------------------------------------------------------------------------------

    def get_user_details(self, user_id: str) -> Json:
        """The user, with their payment methods and the ids of their reservations."""
        return self._found(self.users, user_id, "user")

    def get_reservation_details(self, reservation_id: str) -> Json:
        """The reservation."""
        return self._found(self.reservations, reservation_id, "reservation")

    def get_flight_status(self, flight_number: str, date: str) -> str:
        """The status of one flight on one day."""
        return str(self._day(flight_number, date)["status"])

    def list_all_airports(self) -> list[str]:
        """Where the airline flies, by code."""
        return sorted({flight[end] for flight in self.flights.values() for end in ("origin", "destination")})

    def search_direct_flight(self, origin: str, destination: str, date: str) -> list[Json]:
        """The flights of a day with free seats."""
        return [
            self._offer(flight, date) for flight in self._leaving(origin, date) if flight["destination"] == destination
        ]

    def search_onestop_flight(self, origin: str, destination: str, date: str) -> list[list[Json]]:
        """Pairs of flights; the second leaves when the first has arrived, on the same day or the next."""
        pairs = []
        for first in self._leaving(origin, date):
            arrives, _, later = first["scheduled_arrival_time_est"].partition("+")
            day = _day_after(date) if later else date
            for second in self._leaving(first["destination"], day):
                if second["destination"] == destination and second["scheduled_departure_time_est"] >= arrives:
                    pairs.append(
                        [{**self._offer(first, date), "date": date}, {**self._offer(second, day), "date": day}]
                    )
        return pairs

    def calculate(self, expression: str) -> str:
        """The value of an expression, to two places."""
        return str(round(float(arithmetic.value(expression)), 2))

    # -- changing ------------------------------------------------------------------------------------------------

    def book_reservation(
        self,
        *,
        user_id: str,
        origin: str,
        destination: str,
        flight_type: str,
        cabin: str,
        flights: list[Json],
        passengers: list[Json],
        payment_methods: list[Json],
        total_baggages: int,
        nonfree_baggages: int,
        insurance: str,
    ) -> Json:
        """Books flights with free seats, paid to the dollar with what is in the user's profile."""
        user = self.get_user_details(user_id)
        seats = len(passengers)
        legs = [self._leg(flight, cabin, seats) for flight in flights]
        cost = seats * sum(leg["price"] for leg in legs) + BAG * nonfree_baggages
        cost += INSURANCE * seats if insurance == "yes" else 0
        for payment in payment_methods:
            self._covers(user, payment["payment_id"], payment["amount"])
        if sum(payment["amount"] for payment in payment_methods) != cost:
            raise ToolError(f"The payments do not make up the price, which is {cost} dollars.")
        for leg in legs:
            self._day(leg["flight_number"], leg["date"])["available_seats"][cabin] -= seats
        for payment in payment_methods:
            self._charge(user, payment["payment_id"], payment["amount"])
        reservation: Json = {
            "reservation_id": next(fresh for fresh in FRESH_IDS if fresh not in self.reservations),
            "user_id": user_id,
            "origin": origin,
            "destination": destination,
            "flight_type": flight_type,
            "cabin": cabin,
            "flights": legs,
            "passengers": passengers,
            "payment_history": payment_methods,
            "created_at": NOW,
            "total_baggages": total_baggages,
            "nonfree_baggages": nonfree_baggages,
            "insurance": insurance,
            "status": None,
        }
        self.reservations[reservation["reservation_id"]] = reservation
        user["reservations"].append(reservation["reservation_id"])
        return reservation

    def cancel_reservation(self, reservation_id: str) -> Json:
        """Cancels all of a reservation, and lists what is paid back."""
        reservation = self.get_reservation_details(reservation_id)
        paid = reservation["payment_history"]
        reservation["payment_history"] = [*paid, *({**payment, "amount": -payment["amount"]} for payment in paid)]
        reservation["status"] = "cancelled"
        return reservation

    def update_reservation_flights(self, reservation_id: str, cabin: str, flights: list[Json], payment_id: str) -> Json:
        """Changes flights or the cabin. A leg that stays as it was keeps its price."""
        reservation = self.get_reservation_details(reservation_id)
        seats = len(reservation["passengers"])
        kept = {
            (leg["flight_number"], leg["date"]): leg for leg in reservation["flights"] if reservation["cabin"] == cabin
        }
        legs = [
            kept.get((flight["flight_number"], flight["date"])) or self._leg(flight, cabin, seats) for flight in flights
        ]
        before = sum(leg["price"] for leg in reservation["flights"])
        self._pay(reservation, payment_id, seats * (sum(leg["price"] for leg in legs) - before))
        reservation["flights"] = legs
        reservation["cabin"] = cabin
        return reservation

    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> Json:
        """Adds bags; each one more that is not free costs."""
        reservation = self.get_reservation_details(reservation_id)
        self._pay(reservation, payment_id, BAG * max(0, nonfree_baggages - reservation["nonfree_baggages"]))
        reservation["total_baggages"] = total_baggages
        reservation["nonfree_baggages"] = nonfree_baggages
        return reservation

    def update_reservation_passengers(self, reservation_id: str, passengers: list[Json]) -> Json:
        """Changes who flies, not how many."""
        reservation = self.get_reservation_details(reservation_id)
        if len(passengers) != len(reservation["passengers"]):
            raise ToolError("The number of passengers cannot be changed.")
        reservation["passengers"] = passengers
        return reservation

    def send_certificate(self, user_id: str, amount: int) -> str:
        """Gives the user a certificate."""
        methods = self.get_user_details(user_id)["payment_methods"]
        number = next(number for number in range(1_000_000, 2_000_000) if f"certificate_{number}" not in methods)
        name = f"certificate_{number}"
        methods[name] = {"source": "certificate", "id": name, "amount": float(amount)}
        return f"{name} of {amount} dollars was sent."

    def transfer_to_human_agents(self, summary: str) -> str:
        """Hands the user over."""
        return "Transfer successful"

    # -- what these are made of ----------------------------------------------------------------------------------

    def _found(self, where: Json, name: str, kind: str) -> Json:
        if name not in where:
            raise ToolError(f"There is no {kind} {name}.")
        found: Json = where[name]
        return found

    def _day(self, flight_number: str, date: str) -> Json:
        return self._found(self._found(self.flights, flight_number, "flight")["dates"], date, f"{flight_number} on")

    def _leaving(self, origin: str, date: str) -> list[Json]:
        return [
            flight
            for flight in self.flights.values()
            if flight["origin"] == origin and flight["dates"].get(date, {}).get("status") == "available"
        ]

    def _offer(self, flight: Json, date: str) -> Json:
        day = flight["dates"][date]
        fixed = {name: value for name, value in flight.items() if name != "dates"}
        times = ("scheduled_departure_time_est", "scheduled_arrival_time_est")
        return {
            **_ordered(fixed, ("flight_number", "origin", "destination")),
            "status": day["status"],
            **_ordered(fixed, times),
            "date": None,
            "available_seats": day["available_seats"],
            "prices": day["prices"],
        }

    def _leg(self, flight: Json, cabin: str, seats: int) -> Json:
        number, date = flight["flight_number"], flight["date"]
        day = self._day(number, date)
        if day["status"] != "available":
            raise ToolError(f"{number} on {date} cannot be booked: {day['status']}.")
        if day["available_seats"][cabin] < seats:
            raise ToolError(f"{number} on {date} has {day['available_seats'][cabin]} seats left in {cabin}.")
        return {**_ordered(self.flights[number] | {"date": date, "price": day["prices"][cabin]}, _LEG)}

    def _covers(self, user: Json, payment_id: str, amount: int) -> Json:
        method = self._found(user["payment_methods"], payment_id, "payment method")
        if method.get("amount", amount) < amount:
            raise ToolError(f"{payment_id} has {method['amount']} dollars, and {amount} are to be paid.")
        return method

    def _charge(self, user: Json, payment_id: str, amount: int) -> None:
        method = self._covers(user, payment_id, amount)
        if method["source"] == "certificate":
            del user["payment_methods"][payment_id]
        elif method["source"] == "gift_card":
            method["amount"] -= amount

    def _pay(self, reservation: Json, payment_id: str, amount: int) -> None:
        user = self.get_user_details(reservation["user_id"])
        if self._covers(user, payment_id, amount)["source"] == "certificate":
            raise ToolError("A change cannot be paid with a certificate.")
        if amount:
            self._charge(user, payment_id, amount)
            reservation["payment_history"] = [
                *reservation["payment_history"],
                {"payment_id": payment_id, "amount": amount},
            ]


def _day_after(date: str) -> str:
    """Within one month, which is all that there is."""
    return f"{date[:8]}{int(date[8:]) + 1:02}"
